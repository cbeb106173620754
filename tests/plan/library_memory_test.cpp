#include "plan/library_memory.h"

#include <doctest/doctest.h>

#include "plan/static_memory.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {
constexpr std::int64_t kMiB = 1 << 20;
}

TEST_CASE("one empty weight gradient for each shape of the stage, kept in the weight's type") {
  // tiny-dense: h 64, 4 heads of 16 and 2 of keys and values, g 128. Shapes: qkv (4 + 2 x 2) 16 x 64, projection
  // 64 x 64, gate-up 256 x 64, down 64 x 128; two layers share them.
  Small dense;
  dense.model = "tiny-dense";
  dense.ep = 1;
  dense.routing = "";
  const std::int64_t layer = 128 * 64 + 64 * 64 + 256 * 64 + 64 * 128;
  CHECK(plan::returned_gradient_bytes(*dense.make(), 0) == 2 * layer);
  dense.tp = 2;  // 64 x 64, 64 x 32, 128 x 64, and down 64 x 64, which is qkv's shape
  CHECK(plan::returned_gradient_bytes(*dense.make(), 0) == 2 * (64 * 64 + 64 * 32 + 128 * 64));
  dense.optimizer = "{ sharding: zero2 }";  // gradients are tensors of their own
  CHECK(plan::returned_gradient_bytes(*dense.make(), 0) == 0);
}

TEST_CASE("experts of one shape share one: torchtitan has none") {
  Small small;  // tiny-moe: experts of 32
  const auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  const std::int64_t with_two = plan::returned_gradient_bytes(*scenario, 0);
  scenario->model.moe.experts = 16;
  CHECK(plan::returned_gradient_bytes(*scenario, 0) == with_two);
  scenario->training.framework = scenario::Framework::torchtitan;
  CHECK(plan::returned_gradient_bytes(*scenario, 0) == 0);
}

TEST_CASE("workspaces: PyTorch's of two threads, Transformer Engine's, and four streams of grouped products") {
  Small moe, dense;
  dense.model = "tiny-dense";
  dense.ep = 1;
  dense.routing = "";
  CHECK(plan::product_workspace_bytes(*dense.make(), 0) == 3 * 32 * kMiB);  // H100: 32 MiB each
  CHECK(plan::product_workspace_bytes(*moe.make(), 0) == 7 * 32 * kMiB);
  // A stage without loss and experts has no product of PyTorch's own.
  dense.gpus = 8;
  dense.pp = 2;
  CHECK(plan::product_workspace_bytes(*dense.make(), 0) == 32 * kMiB);
  CHECK(plan::product_workspace_bytes(*dense.make(), 1) == 3 * 32 * kMiB);
}

TEST_CASE("before Hopper Transformer Engine's workspaces are smaller than PyTorch's, which the environment may set") {
  Small moe;
  moe.hardware = "a100-sxm-80gb";
  // Two threads of PyTorch at 8.125 MiB, five of Transformer Engine at 4 MiB.
  CHECK(plan::product_workspace_bytes(*moe.make(), 0) == 2 * 8 * kMiB + 2 * kMiB / 8 + 5 * 4 * kMiB);
  const auto stated = std::make_shared<scenario::Scenario>(*moe.make());
  stated->memory.cublas_workspace_bytes = 32 * kMiB;
  CHECK(plan::product_workspace_bytes(*stated, 0) == 2 * 32 * kMiB + 5 * 4 * kMiB);
}

TEST_CASE("the buffer that gathers the output layer's input is where the loss is, under tensor parallelism") {
  Small small;
  small.gpus = 8;
  small.pp = 2;
  small.tp = 2;
  const auto scenario = small.make();
  CHECK(plan::gather_buffer_bytes(*scenario, 0) == 0);
  CHECK(plan::gather_buffer_bytes(*scenario, 1) == 2 * 256 * 64);
  CHECK(plan::gather_buffer_bytes(*Small().make(), 0) == 0);
}
