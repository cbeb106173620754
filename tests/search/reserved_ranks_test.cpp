#include "search/reserved_ranks.h"

#include <doctest/doctest.h>

#include <numeric>

#include "search/evaluate.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {
constexpr auto kTails = static_cast<std::size_t>(plan::TensorKind::block_tails);
std::int64_t sum(const plan::BytesByKind& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}
}  // namespace

TEST_CASE("allocated counts blocks whole, as PyTorch does: what was not asked for is a kind of its own") {
  Small small;
  small.mbs = 4;  // tensors of megabytes, whose blocks have tails
  small.gbs = 16;
  small.seq = 1000;
  const auto scenario = small.make();
  const auto e = search::evaluate(scenario, 1, {}, true);
  const auto walked = memory::replay(*e.plan, e.worst.rank);
  const auto replayed = memory::reserved_of(*e.plan, e.worst.rank);
  CHECK(walked.peak.by_kind[kTails] == 0);
  CHECK(e.worst.peak.by_kind[kTails] > 0);
  CHECK(e.worst.peak.allocated_bytes == walked.peak.allocated_bytes + e.worst.peak.by_kind[kTails]);
  CHECK(e.worst.peak.allocated_bytes == replayed.allocated_peak_bytes);
  CHECK(sum(e.worst.peak.by_kind) == e.worst.peak.allocated_bytes);
  std::int64_t alive = 0;
  for (const auto& tensor : e.alive) alive += tensor.bytes;
  CHECK(alive == e.worst.peak.allocated_bytes);
  CHECK(e.worst.fragmentation_bytes() == e.worst.reserved_bytes - e.worst.peak.allocated_bytes);
}

TEST_CASE("ranks that are not replayed have the tails of their stage's highest") {
  Small small;
  small.mbs = 4;
  small.gbs = 16;
  small.seq = 1000;
  const auto e = search::evaluate(small.make(), 1);
  for (const auto& rank : e.ranks) {
    CHECK(rank.peak.by_kind[kTails] == e.worst.peak.by_kind[kTails]);
    CHECK(rank.peak.allocated_bytes == e.worst.peak.allocated_bytes);  // balanced: all ranks are equal
    CHECK(sum(rank.peak.by_kind) == rank.peak.allocated_bytes);
  }
}

TEST_CASE("gradient shards of torchtitan arise in backward, in a pool of their own, and go with the next step") {
  Small small;
  small.optimizer = "{ sharding: fsdp2 }";
  small.gbs = 4;  // one microbatch
  const auto made = std::make_shared<scenario::Scenario>(*small.make());
  made->training.framework = scenario::Framework::torchtitan;
  const auto e = search::evaluate(made, 1, {}, true);
  const auto points = memory::timeline(*e.plan, 0);
  std::int64_t shards = 0;
  const plan::Program& program = e.plan->program_of(0);
  for (const plan::Visit& visit : program.visits)
    if (visit.direction == schedule::Direction::backward)
      for (const auto& tensor : e.plan->blocks[static_cast<std::size_t>(visit.block)].tensors)
        if (tensor.of_step) shards += memory::allocation_bytes(tensor.size.bytes);
  CHECK(shards > 0);
  // The optimizer runs with the static memory and the shards alone.
  CHECK(points.back().allocated_bytes == e.ranks[0].static_bytes + shards);
  // A pool that nothing else takes from: 512-byte pieces of whole 2 MiB segments here.
  std::vector<memory::MemoryEvent> events;
  memory::ReservedReplay replay(*e.plan, 0, memory::allocator_settings(*e.plan, 0), &events);
  for (int i = 0; i < 2; ++i) replay.run(*e.plan);
  std::int64_t made_bytes = 0, freed = 0;
  for (const auto& event : events)
    if (event.tensor == "gradient shards") {
      const bool alloc = event.action == memory::MemoryEvent::Action::alloc;
      (alloc ? made_bytes : freed) += event.bytes;
      CHECK(memory::pool_name(event.pool) == "reduce");
      if (!alloc) CHECK(event.iteration == 1);
    }
  CHECK(made_bytes == 2 * shards);
  CHECK(freed == shards);
}

TEST_CASE("loading may hold the peak: parameters twice and the gradient buffer, on every rank of the stage") {
  Small small;
  small.model = "llama3-8b";
  small.routing = "";
  small.ep = 1;
  small.gpus = 64;
  small.gbs = 64;
  small.seq = 512;
  small.memory = "{ recompute_granularity: full }";
  const auto e = search::evaluate(small.make(), 1);
  CHECK(e.worst.peak.phase == memory::Phase::load);
  // 2 + 2 + 4 bytes a parameter against 2 + 4 + 12 / 64 and little of activations.
  const double parameters = 8.03e9;
  CHECK(static_cast<double>(e.worst.peak.allocated_bytes) == doctest::Approx(8 * parameters).epsilon(0.01));
  CHECK(sum(e.worst.peak.by_kind) == e.worst.peak.allocated_bytes);
  for (const auto& rank : e.ranks) CHECK(rank.peak.allocated_bytes == e.worst.peak.allocated_bytes);
  CHECK(e.stages[0].peak_allocated_bytes == e.worst.peak.allocated_bytes);
}

TEST_CASE("in every phase what is allocated is no more than what is reserved, over iterations that differ") {
  Small small;
  small.pp = 2;
  small.gpus = 8;
  small.routing = "{ lognormal: { sigma: 1.5, seed: 3, draws: 3 } }";
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->training.iterations = 5;
  const auto e = search::evaluate(scenario, 1);
  for (const auto& stage : e.stages)
    for (std::size_t phase = 0; phase < memory::kPhases; ++phase)
      CHECK(stage.phase_allocated_bytes[phase] <= stage.phase_reserved_bytes[phase]);
}
