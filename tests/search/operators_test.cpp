#include "search/operators.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "measurements/read_table.h"

namespace moeplan::search {
namespace {

const OperatorSummary* line_of(const OperatorValidation& validation, const std::string& by, const std::string& value) {
  const auto found = std::find_if(validation.summary.begin(), validation.summary.end(),
                                  [&](const OperatorSummary& s) { return s.by == by && s.value == value; });
  return found == validation.summary.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a summary has the quantiles of sizes, the signed mean and the shares of each sign") {
  // Sizes in order: 0, 0.1, 0.2, 0.3, 0.4. Median 0.2; nine tenths of the way lies 3.6 steps up: 0.36.
  const OperatorSummary s = summarize_operators("total", "", {0.4, -0.3, 0.2, -0.1, 0.0});
  CHECK(s.count == 5);
  CHECK(s.median_absolute == doctest::Approx(0.2));
  CHECK(s.p90_absolute == doctest::Approx(0.36));
  CHECK(s.mean == doctest::Approx(0.04));
  CHECK(s.over == 2);
  CHECK(s.under == 2);
  CHECK(summarize_operators("total", "", {}).count == 0);
}

TEST_CASE("rows are judged from the profile that their GPU names, and classed by size at 1e10 and 1e11 FLOP") {
  // 2mnk: 2 x 5000 x 1000 x 1000 = 1e10, one row less is below; 2 x 5000 x 1000 x 10000 = 1e11.
  const measurements::MeasurementTable table = measurements::parse_measurements(
      "id,gpu,op,dtype,m,n,k,time_us\n"
      "a,H200-SXM,gemm,bf16,5000,1000,1000,20\n"
      "b,H200-SXM,gemm,bf16,4999,1000,1000,20\n"
      "c,H100-SXM,gemm,bf16,5000,1000,10000,150\n"
      "d,H300,gemm,bf16,5000,1000,10000,150\n"
      "e,H200-SXM,gemm,bf16,5000,1000,10000,-1\n",
      "t.csv");
  const measurements::Profiles profiles{std::vector<std::string>{}};
  const OperatorValidation validation = validate_operators(table, profiles, nullptr);
  CHECK(validation.ok == 3);
  CHECK(validation.skipped == 1);
  CHECK(validation.errors == 1);
  CHECK(validation.rows[0].profile == "h200-sxm");
  CHECK(validation.rows[2].profile == "h100-sxm");
  CHECK(validation.rows[3].reason.find("no profile is called 'H300'") == 0);
  CHECK_FALSE(validation.rows[4].error().has_value());
  CHECK(*validation.rows[0].error() == doctest::Approx(*validation.rows[0].predicted / 20e-6 - 1));
  REQUIRE(line_of(validation, "size", "bf16 gemm 1e10 to 1e11 FLOP") != nullptr);
  CHECK(line_of(validation, "size", "bf16 gemm 1e10 to 1e11 FLOP")->count == 1);
  CHECK(line_of(validation, "size", "bf16 gemm < 1e10 FLOP")->count == 1);
  CHECK(line_of(validation, "size", "bf16 gemm >= 1e11 FLOP")->count == 1);
  CHECK(line_of(validation, "gpu", "H200-SXM")->count == 2);
  CHECK(line_of(validation, "kind", "gemm forward")->count == 3);
  CHECK(validation.summary.front().count == 3);

  const OperatorValidation fixed = validate_operators(table, profiles, profiles.find("h200-sxm"));
  CHECK(fixed.ok == 4);
  CHECK(fixed.rows[3].profile == "h200-sxm");
}

}  // namespace moeplan::search
