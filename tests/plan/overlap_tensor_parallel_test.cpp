#include <doctest/doctest.h>

#include <algorithm>

#include "block_memory.h"
#include "plan/plan.h"
#include "plan/side_streams.h"
#include "support/tensor_parallel.h"

using namespace moeplan;
using moeplan::test::tensor_parallel;
using plan::Stream;
using plan::stream_bit;

namespace {

const plan::Block& layer(const plan::Plan& plan) {
  for (const plan::Block& block : plan.blocks)
    if (block.name == "dense layer") return block;
  FAIL("no dense layer");
  return plan.blocks.front();
}

std::size_t place(const std::vector<plan::Op>& ops, const std::string& name) {
  const auto found = std::find_if(ops.begin(), ops.end(), [&](const plan::Op& op) { return op.name == name; });
  REQUIRE(found != ops.end());
  return static_cast<std::size_t>(found - ops.begin());
}

}  // namespace

TEST_CASE("backward gathers the input beside dgrad and scatters the sum beside wgrad, with or without user buffers") {
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    const auto made = plan::make_plan(tensor_parallel(2, overlap), 0, 1);
    const plan::Block& block = layer(made);
    const auto& ops = block.backward;
    const std::size_t gather = place(ops, "MLP all-gather again"), dgrad = place(ops, "MLP gate-up dgrad"),
                      scatter = place(ops, "MLP gradient reduce-scatter"), wgrad = place(ops, "MLP gate-up wgrad");
    CHECK(gather < dgrad);
    CHECK(dgrad < scatter);
    CHECK(scatter + 1 == wgrad);
    CHECK(ops[gather].stream == Stream::tp_beside);
    CHECK(ops[gather].asynchronous);
    CHECK((ops[dgrad].joins & stream_bit(Stream::tp_beside)) == 0);
    CHECK((ops[wgrad].joins & stream_bit(Stream::tp_beside)) != 0);  // it reads what was gathered
    CHECK(ops[wgrad].beside_tp);
    CHECK((ops[wgrad + 1].joins & stream_bit(Stream::tp)) != 0);  // the norm reads the sum
    CHECK_FALSE(ops[wgrad + 1].beside_tp);
    CHECK(ops[gather].sms == (overlap ? 16 : -1));
    // The partial sums stay until wgrad has ended; in user buffers they are no tensor.
    const auto& partial = test::tensor(block, "MLP partial input gradient");
    CHECK(partial.size.bytes == (overlap ? 0 : 4096 * 4096 * 2));
    test::check_conserved(block);
  }
}

TEST_CASE("parts without a single queue hide backward's exchanges through user buffers alone") {
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    const auto scenario = tensor_parallel(2, overlap, "b200-sxm");
    const auto made = plan::make_plan(scenario, 0, 1);
    const auto& ops = layer(made).backward;
    const std::size_t gather = place(ops, "MLP all-gather again"), scatter = place(ops, "MLP gradient reduce-scatter");
    CHECK((ops[gather].stream == Stream::tp_beside) == overlap);
    CHECK(ops[scatter].asynchronous == overlap);
    CHECK((scatter < place(ops, "MLP gate-up wgrad")) == overlap);
    test::check_conserved(layer(made));
  }
}

TEST_CASE("one tensor-parallel rank exchanges nothing, and its products are whole") {
  for (const bool overlap : {false, true}) {
    const auto scenario = tensor_parallel(1, overlap);
    const auto made = plan::make_plan(scenario, 0, 1);
    for (const auto* ops : {&layer(made).forward, &layer(made).backward})
      for (const plan::Op& op : *ops) {
        CHECK(op.stream != Stream::tp_beside);
        CHECK_FALSE(op.name.ends_with("last pieces"));
      }
    CHECK(plan::user_buffer_bytes(*scenario) == 0);
    const auto said = std::count_if(scenario->assumptions.begin(), scenario->assumptions.end(), [](const auto& line) {
      return line == "training.tp_comm_overlap does nothing: parallel.tp is 1";
    });
    CHECK(said == (overlap ? 1 : 0));
  }
}

TEST_CASE("user buffers: the input comes in a piece a rank, the last piece of the product waits for it") {
  const auto scenario = tensor_parallel(4, true);
  const auto made = plan::make_plan(scenario, 0, 1);
  const auto& ops = layer(made).forward;
  const std::size_t gather = place(ops, "attention all-gather");
  // qkv: 4096 rows in 4 pieces of 1024, (32 + 2 * 8) heads of 128 over 4 ranks wide.
  const double piece_s = cost::gemm_time_s({1024, 48 * 128 / 4, 4096}, scenario->hardware);
  CHECK(ops[gather].stream == Stream::tp_beside);
  CHECK(ops[gather].sms == 1);
  CHECK(ops[gather].size.bytes == 4096 * 4096 * 2);
  CHECK(ops[gather + 1].name == "qkv projection");
  CHECK(ops[gather + 1].seconds == doctest::Approx(3 * piece_s).epsilon(1e-12));
  CHECK(ops[gather + 1].launches == 3);
  CHECK((ops[gather + 1].joins & stream_bit(Stream::tp_beside)) == 0);
  CHECK(ops[gather + 2].name == "qkv projection, last pieces");
  CHECK(ops[gather + 2].seconds == doctest::Approx(piece_s).epsilon(1e-12));
  CHECK((ops[gather + 2].joins & stream_bit(Stream::tp_beside)) != 0);
}

TEST_CASE("user buffers: the output goes in four pieces, the last one after the product") {
  const auto scenario = tensor_parallel(2, true);
  const auto made = plan::make_plan(scenario, 0, 1);
  const auto& ops = layer(made).forward;
  const std::size_t first = place(ops, "MLP down");
  // 4096 rows in 4 pieces of 1024; the sum is 4096 x 4096 in bf16: 8 MiB a piece.
  const double piece_s = cost::gemm_time_s({1024, 4096, 14336 / 2}, scenario->hardware);
  CHECK(ops[first].seconds == doctest::Approx(piece_s).epsilon(1e-12));
  CHECK(ops[first + 1].stream == Stream::tp_beside);
  CHECK(ops[first + 1].size.bytes == 8 << 20);
  CHECK(ops[first + 1].repeats == 3);
  CHECK(ops[first + 1].sms == 16);
  CHECK(ops[first + 2].name == "MLP down, last pieces");
  CHECK(ops[first + 2].seconds == doctest::Approx(3 * piece_s).epsilon(1e-12));
  CHECK(ops[first + 3].name == "MLP reduce-scatter, last piece");
  CHECK(ops[first + 3].stream == Stream::tp);
  CHECK(ops[first + 3].repeats == 1);
  CHECK((ops[first + 3].joins & stream_bit(Stream::tp_beside)) != 0);
}

TEST_CASE("user buffers take 20 bytes an element in bf16, 14 where products read fp8") {
  // Six that gather in the operands' type and four that scatter in bf16, of 4096 x 4096.
  const auto scenario = tensor_parallel(2, true);
  CHECK(plan::user_buffer_bytes(*scenario) == std::int64_t{4096} * 4096 * (6 * 2 + 4 * 2));
  scenario->training.precision = scenario::Precision::fp8_tensorwise;
  CHECK(plan::user_buffer_bytes(*scenario) == std::int64_t{4096} * 4096 * (6 * 1 + 4 * 2));
  CHECK(plan::user_buffer_bytes(*tensor_parallel(2, false)) == 0);
  const auto outside = [](bool overlap) {
    return plan::static_memory(*tensor_parallel(2, overlap), 0).communicator_bytes;
  };
  CHECK(outside(true) - outside(false) == std::int64_t{4096} * 4096 * 20);
}

TEST_CASE("tensors of products in pieces live and end as whole ones do, in narrow precision too") {
  auto scenario = tensor_parallel(4, true);
  scenario->training.precision = scenario::Precision::fp8_tensorwise;
  for (const plan::Block& block : plan::make_plan(scenario, 0, 1).blocks) {
    CAPTURE(block.name);
    test::check_conserved(block);
  }
}
