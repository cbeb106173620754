#include <doctest/doctest.h>

#include "search/evaluate.h"
#include "support/scenarios.h"

using namespace moeplan;

namespace {

// DeepSeek-V2-Lite on two nodes of 8 H100, EP 8, with a recorded routing.
search::Evaluation run(std::vector<std::pair<std::string, std::string>> overrides) {
  return search::evaluate(test::scenario_file("quickstart.yaml", overrides), 1);
}

}  // namespace

TEST_CASE("dispatchers: kernels send less and hold no copy to send: allgather sends what nobody asked for") {
  const auto alltoall = run({});
  const auto deepep = run({{"moe.dispatcher", "deepep"}}), hybridep = run({{"moe.dispatcher", "hybridep"}});
  const auto allgather = run({{"moe.dispatcher", "allgather"}});
  // Over two nodes, where a row crosses the NICs once a node instead of once an expert. (Inside a node the kernels'
  // time a token can be more than the bytes that they save.)
  const auto over_nodes = [](const char* dispatcher) {
    return run({{"parallel.expert_model_parallel_size", "16"}, {"moe.dispatcher", dispatcher}}).mean.exposed_ep_s;
  };
  CHECK(over_nodes("deepep") < over_nodes("alltoall"));
  CHECK(over_nodes("hybridep") < over_nodes("alltoall"));
  CHECK(allgather.mean.exposed_ep_s > alltoall.mean.exposed_ep_s);
  // All ranks' expert work is the same work.
  for (const auto* e : {&deepep, &hybridep, &allgather})
    CHECK(e->mean.family_s[static_cast<std::size_t>(plan::Family::expert)] ==
          doctest::Approx(alltoall.mean.family_s[static_cast<std::size_t>(plan::Family::expert)]));
  // HybridEP's buffers: 4096 tokens x 8 ranks x 2048 x 2 B outside the allocator.
  CHECK(hybridep.worst.outside_bytes == alltoall.worst.outside_bytes + 4096LL * 8 * 2048 * 2);
}

TEST_CASE("more multiprocessors for the dispatch kernels are never slower") {
  const auto few = run({{"moe.dispatcher", "deepep"}, {"moe.dispatcher_sms", "4"}});
  const auto many = run({{"moe.dispatcher", "deepep"}, {"moe.dispatcher_sms", "24"}});
  CHECK(many.mean.exposed_ep_s < few.mean.exposed_ep_s);
}

TEST_CASE("a profile without dispatch kernels prices one row a token and rank: less than whole rows") {
  const std::pair<std::string, std::string> a100{"cluster.hardware", "a100-sxm-80gb"};
  CHECK(run({a100, {"moe.dispatcher", "deepep"}}).mean.exposed_ep_s < run({a100}).mean.exposed_ep_s);
}

TEST_CASE("a rank capacity: paged stash needs less than static buffers: rows above it are said") {
  const std::pair<std::string, std::string> hybrid{"moe.dispatcher", "hybridep"};
  const auto fixed = run({hybrid, {"moe.expert_rank_capacity_factor", "3"}});
  const auto paged = run({hybrid, {"moe.expert_rank_capacity_factor", "3"}, {"moe.paged_stash", "true"}});
  CHECK(paged.worst.peak.allocated_bytes < fixed.worst.peak.allocated_bytes);
  // Every rank holds the same, whatever the trace sends it.
  for (const auto& rank : fixed.ranks) CHECK(rank.peak.allocated_bytes == fixed.ranks[0].peak.allocated_bytes);
  const auto overflows = [](const search::Evaluation& e) {
    std::size_t n = 0;
    for (const auto& line : e.warnings) n += line.find("more than their buffers hold") != std::string::npos ? 1 : 0;
    return n;
  };
  CHECK(overflows(fixed) == 0);
  CHECK(overflows(run({hybrid, {"moe.expert_rank_capacity_factor", "1.01"}})) == 1);
}

TEST_CASE("narrow precisions: products take less time, kept activations less memory, weights more") {
  const auto wide = run({}), narrow = run({{"training.precision", "fp8_tensorwise"}});
  const auto at = [](const search::Evaluation& e, plan::TensorKind kind) {
    return e.worst.peak.by_kind[static_cast<std::size_t>(kind)];
  };
  CHECK(narrow.mean.family_s[static_cast<std::size_t>(plan::Family::dense)] <
        wide.mean.family_s[static_cast<std::size_t>(plan::Family::dense)]);
  CHECK(at(narrow, plan::TensorKind::activations_moe) < at(wide, plan::TensorKind::activations_moe));
  CHECK(at(narrow, plan::TensorKind::parameters) > at(wide, plan::TensorKind::parameters));
  // MFU is of the peak of the precision: 1979 TFLOP/s of dense fp8 on H100.
  CHECK(narrow.mfu_peak_flops == doctest::Approx(1979e12));
  CHECK(narrow.mfu == doctest::Approx(narrow.model_flops_per_gpu / 1979e12));
  CHECK(wide.mfu_peak_flops == doctest::Approx(989e12));
}

TEST_CASE("CUDA graphs take host time away and leave the work") {
  const auto eager = run({});
  const auto graphs = run({{"training.cuda_graph_impl", "local"}, {"training.cuda_graph_scope", "[attn, moe_router]"}});
  CHECK(graphs.mean.host_s <= eager.mean.host_s);
  CHECK(graphs.mean.family_s[static_cast<std::size_t>(plan::Family::attention)] ==
        doctest::Approx(eager.mean.family_s[static_cast<std::size_t>(plan::Family::attention)]));
}
