#include "plan/rank_rows.h"

#include <cmath>

#include "base/checked.h"

namespace moeplan::plan {

namespace {

// A share of rows is a quotient of whole numbers' products: what is whole must not be rounded up.
constexpr double kRounding = 1e-6;

}  // namespace

std::int64_t RankRows::of_decision(const Rows& which, std::int64_t place) const {
  const auto number = static_cast<std::size_t>(plan_.decision_of[static_cast<std::size_t>(place * groups_ + group_)]);
  if (which.kind == Rows::Kind::hosted) return plan_.decisions[number].extra_instances(member_);
  if (which.kind == Rows::Kind::lent) return plan_.decisions[number].lent_instances(member_);
  const bool sent = which.kind == Rows::Kind::sent;
  const std::int64_t rows = plan_.summed_rows(number, which, member_, sent);
  switch (which.kind) {
    case Rows::Kind::received:
      return rows;
    case Rows::Kind::distinct:
      return static_cast<std::int64_t>(std::ceil(static_cast<double>(rows) * plan_.distinct_share - kRounding));
    default:  // arrived, sent: shared with the expert tensor parallel peers
      return plan_.scenario->layout.etp == 1 ? rows : base::ceil_div(rows, plan_.scenario->layout.etp);
  }
}

}  // namespace moeplan::plan
