#include "search/memory_scope.h"

#include "base/check.h"

namespace moeplan::search {

Scope scope_of(const runs::Run& run) {
  const auto says = [&](const char* words) { return run.memory_scope.find(words) != std::string::npos; };
  if (says("last rank")) return Scope::last_rank;
  if (says("rank 0")) return Scope::first_rank;
  if (says("logged rank")) return run.framework == "torchtitan" ? Scope::first_rank : Scope::logged;
  return Scope::highest;
}

std::string scope_name(Scope scope) {
  switch (scope) {
    case Scope::highest:
      return "the highest rank";
    case Scope::first_rank:
      return "rank 0";
    case Scope::last_rank:
      return "the last rank";
    case Scope::logged:
      return "the highest of data-parallel rank 0";
  }
  MOEPLAN_CHECK(false, "a scope has a name");
}

std::vector<std::int64_t> ranks_in(Scope scope, const topology::Layout& layout) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < layout.world; ++rank) {
    const bool taken = scope == Scope::highest || (scope == Scope::first_rank && rank == 0) ||
                       (scope == Scope::last_rank && rank == layout.world - 1) ||
                       (scope == Scope::logged && layout.place(rank).dp == 0);
    if (taken) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace moeplan::search
