#include "cost/shapes.h"

#include <doctest/doctest.h>

#include <cmath>

#include "cost/kernels.h"
#include "support.h"

using namespace moeplan;
using cost::Basis;
using doctest::Approx;

namespace {

// Two timed products, one that takes twice what the model says and one that takes as long.
topology::HardwareProfile with_shapes() {
  topology::HardwareProfile profile = cost::test::round_profile();
  const double slow = 2 * cost::gemm_time_s({1024, 4096, 4096}, profile);
  const double exact = cost::gemm_time_s({4096, 4096, 4096}, profile);
  profile.shapes = {{"gemm", "forward", "bf16", {1024, 4096, 4096}, slow},
                    {"gemm", "forward", "bf16", {4096, 4096, 4096}, exact}};
  return profile;
}

}  // namespace

TEST_CASE("a timed shape is looked up") {
  const auto profile = with_shapes();
  const cost::ShapeTime time = cost::gemm_time({1024, 4096, 4096}, profile);
  CHECK(time.basis == Basis::measured);
  CHECK(time.seconds == profile.shapes[0].seconds);
}

TEST_CASE("between timed shapes what the model misses is interpolated by distance") {
  const auto profile = with_shapes();
  const auto plain = cost::test::round_profile();
  // 1500 lies within a factor of two of 1024 alone: twice the model.
  const cost::ShapeTime near = cost::gemm_time({1500, 4096, 4096}, profile);
  CHECK(near.basis == Basis::interpolated);
  CHECK(near.seconds == Approx(2 * cost::gemm_time_s({1500, 4096, 4096}, plain)).epsilon(1e-12));
  // A third shape at 2048 with the model's own time: 1448.15 is the middle of 1024 and 2048; at 1448 the weights are
  // 1 / log(1448/1024)^2 and 1 / log(2048/1448)^2.
  auto three = profile;
  three.shapes.insert(three.shapes.begin() + 1,
                      {"gemm", "forward", "bf16", {2048, 4096, 4096}, cost::gemm_time_s({2048, 4096, 4096}, plain)});
  const double a = std::pow(std::log(1448.0 / 1024), -2), b = std::pow(std::log(2048.0 / 1448), -2);
  CHECK(cost::gemm_time_s({1448, 4096, 4096}, three) ==
        Approx(cost::gemm_time_s({1448, 4096, 4096}, plain) * std::pow(2.0, a / (a + b))).epsilon(1e-12));
}

TEST_CASE("outside timed shapes, or far from all, the model stands alone and says so") {
  const auto profile = with_shapes();
  const auto plain = cost::test::round_profile();
  const cost::GemmShape outside{1023, 4096, 4096}, middle{2048, 4096, 4096};  // a factor of two from both is far
  for (const cost::GemmShape& shape : {outside, middle}) {
    CHECK(cost::gemm_time(shape, profile).basis == Basis::extrapolated);
    CHECK(cost::gemm_time_s(shape, profile) == cost::gemm_time_s(shape, plain));
  }
  // No shapes of the pass or type: the model, as without a table.
  CHECK(cost::gemm_time({1024, 4096, 4096, cost::GemmPass::dgrad}, profile).basis == Basis::model);
  CHECK(cost::attention_time({1, 8, 4096, 128, 128}, false, profile).basis == Basis::model);
}

TEST_CASE("attention calls are looked up by direction") {
  auto profile = cost::test::round_profile();
  profile.shapes = {{"attention", "backward", "bf16", {1, 8, 4096, 128, 128}, 1e-3}};
  CHECK(cost::attention_backward_time_s({1, 8, 4096, 128, 128}, profile) == 1e-3);
  CHECK(cost::attention_forward_time_s({1, 8, 4096, 128, 128}, profile) < 1e-3);
}
