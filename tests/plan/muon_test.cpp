#include <doctest/doctest.h>

#include "plan/block_memory.h"
#include "plan/matrices.h"
#include "plan/plan.h"
#include "plan/static_memory.h"
#include "support/scenarios.h"

using namespace moeplan;
using namespace moeplan::test;

namespace {
std::int64_t at(const plan::BytesByKind& bytes, plan::TensorKind kind) { return bytes[static_cast<std::size_t>(kind)]; }

Small dense(const std::string& optimizer) {
  Small small;
  small.model = "tiny-dense";
  small.ep = 1;
  small.routing = "";
  small.optimizer = optimizer;
  return small;
}
}  // namespace

TEST_CASE("matrices of a stage, by hand: largest first, embedding and output layer are none") {
  // tiny-dense, twice: gate-up 256 x 64, down 64 x 128, qkv 128 x 64 (its transpose has as many), projection 64 x 64.
  const auto list = plan::stage_matrices(*dense("{}").make(), 0);
  REQUIRE(list.size() == 4);
  CHECK(list[0].rows == 256);
  CHECK(list[0].columns == 64);
  CHECK(list[0].count == 2);
  CHECK(list[3].elements() == 2 * 64 * 64);
  std::int64_t sum = 0;
  for (const auto& matrix : list) sum += matrix.elements();
  // All but five norms of 64 and two tables of 1024 x 64.
  const auto p = plan::stage_parameters(*dense("{}").make(), 0);
  CHECK(sum == p.dense - 5 * 64 - 2 * 1024 * 64);
  // Experts: four of eight here, gate-up 64 x 64 and down 64 x 32.
  std::int64_t experts = 0;
  for (const auto& matrix : plan::stage_matrices(*Small().make(), 0)) experts += matrix.expert ? matrix.elements() : 0;
  CHECK(experts == 4 * (64 * 64 + 64 * 32));
}

TEST_CASE("muon: a momentum alone for matrices, Adam's two for the rest, all on every rank") {
  const auto scenario = dense("{ kind: muon }").make();
  CHECK(scenario->optimizer.sharding == scenario::Sharding::ddp);
  const auto p = plan::stage_parameters(*scenario, 0);
  const std::int64_t matrices = 2 * (256 * 64 + 64 * 128 + 128 * 64 + 64 * 64);
  const auto memory = plan::static_memory(*scenario, 0);
  CHECK(at(memory.load, plan::TensorKind::optimizer) == 4 * p.dense);
  CHECK(at(memory.moments, plan::TensorKind::optimizer) == 4 * matrices + 8 * (p.dense - matrices));
  const auto narrow = plan::static_memory(*dense("{ kind: muon, exp_avg_dtype: bf16 }").make(), 0);
  CHECK(at(narrow.moments, plan::TensorKind::optimizer) == 2 * matrices + 6 * (p.dense - matrices));
}

TEST_CASE("dist_muon deals whole tensors out there and back, from the smallest on") {
  // Four ranks. Tensors of tiny-dense by size: 5 x 64 (norms), 2 x 4096, 4 x 8192, 2 x 16384, 2 x 65536 (tables).
  // Turns: ranks 0-3 get 320, 4096, 4096, 8192; ranks 3-0 get 8192, 8192, 8192, 16384; ranks 0-2 get 16384, 65536,
  // 65536. Rank 1: 4096 + 8192 by Muon and a table by Adam; rank 2 the same.
  const auto scenario = dense("{ kind: dist_muon }").make();
  CHECK(scenario->optimizer.sharding == scenario::Sharding::zero1);
  const auto share = plan::owned_by_muon(*scenario, 0);
  CHECK(share.muon == 4096 + 8192);
  CHECK(share.adam == 65536);
  const auto memory = plan::static_memory(*scenario, 0);
  CHECK(at(memory.load, plan::TensorKind::optimizer) == 4 * (share.muon + share.adam));
  CHECK(at(memory.moments, plan::TensorKind::optimizer) == 4 * share.muon + 8 * share.adam);
  // Gradients are whole on every rank.
  const auto p = plan::stage_parameters(*scenario, 0);
  CHECK(at(memory.load, plan::TensorKind::gradients) == 4 * p.dense);
}

TEST_CASE("the step: gradients are summed whole, five iterations on the largest matrix's tensors") {
  const auto scenario = dense("{ kind: dist_muon }").make();
  const auto block = plan::make_optimizer_block(*scenario, 0);
  std::vector<char> alive;
  run_ops(block, block.forward, alive);
  for (std::size_t id = 0; id < alive.size(); ++id) CHECK(alive[id] == 0);
  for (const auto& op : block.forward)
    if (op.name == "reduce gradients") CHECK(op.collective == cost::Collective::all_reduce);
  // 256 x 64: X in bf16, A and B of the shorter side.
  CHECK(tensor(block, "Newton-Schulz X").size.bytes == 2 * 256 * 64);
  CHECK(tensor(block, "Newton-Schulz A").size.bytes == 2 * 64 * 64);
  CHECK(tensor(block, "Muon update (fp32)").size.bytes == 4 * 256 * 64);
  CHECK(tensor(block, "gathered parameters, flat").size.bytes == 2 * plan::stage_parameters(*scenario, 0).dense);
  double plain = 0, dealt = 0;
  for (const auto& op : plan::make_optimizer_block(*dense("{ kind: muon }").make(), 0).forward)
    if (op.name == "Newton-Schulz") plain = op.seconds;
  for (const auto& op : block.forward)
    if (op.name == "Newton-Schulz") dealt = op.seconds;
  // Two of each shape on every rank, or one of two on the ranks that have one.
  CHECK(plain == doctest::Approx(2 * dealt));
  const auto& profile = scenario->hardware;
  const auto iteration = [&](std::int64_t m, std::int64_t n) {
    return cost::gemm_time_s({m, m, n}, profile) + cost::gemm_time_s({m, m, m}, profile) +
           cost::gemm_time_s({m, n, m}, profile);
  };
  CHECK(dealt == doctest::Approx(5 * (iteration(64, 256) + 2 * iteration(64, 128) + iteration(64, 64))));
}

TEST_CASE("one rank has nothing to gather, and no buffer for it") {
  Small alone = dense("{ kind: dist_muon }");
  alone.gpus = 1;
  CHECK(tensor(plan::make_optimizer_block(*alone.make(), 0), "gathered parameters, flat").size.bytes == 0);
  alone.gpus = 2;
  const auto two = alone.make();
  CHECK(tensor(plan::make_optimizer_block(*two, 0), "gathered parameters, flat").size.bytes ==
        2 * plan::stage_parameters(*two, 0).dense);
}
