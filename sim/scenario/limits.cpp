#include "scenario/limits.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/units.h"

namespace moeplan::scenario {
namespace {

constexpr double kOperations = 1e9;  // some minutes
constexpr double kWorkBytes = 4.0 * base::kGiB;
constexpr double kMaxCount = 2147483647.0;   // 2^31 - 1: tokens and rows are numbered in 32 bits
constexpr std::int64_t kMaxExperts = 65535;  // experts are numbered in 16 bits
constexpr std::int64_t kMaxTopK = 64;
constexpr double kMaxRankBytes = 1e17;  // of one rank: far above any device, far below 2^63

double real(std::int64_t value) { return static_cast<double>(value); }

// Of one stage; before the stages are known (a fault elsewhere), their share of the model.
std::int64_t most_layers(const Scenario& scenario) {
  if (scenario.stages.pp() > 0) return std::max<std::int64_t>(1, scenario.stages.most_layers());
  return (scenario.model.layer_count() + scenario.layout.pp - 1) / scenario.layout.pp;
}

std::int64_t most_chunks(const Policies& policies) {
  if (!policies.memfine) return 1;
  const bool fixed = policies.memfine->rule == policy::MemfineSettings::Rule::fixed;
  return fixed ? policies.memfine->chunks : policies.memfine->bins.back();
}

// An upper bound, in doubles: every activation that any recompute setting keeps, all microbatches in flight, every
// routed copy of the group on this rank, the logits, and the parameters with all their states.
double most_bytes(const Scenario& scenario) {
  const model::Architecture& arch = scenario.model;
  const double tokens = real(scenario.training.micro_batch_size) * real(scenario.training.seq_length);
  const double hidden = real(arch.hidden);
  const double attention =
      real(arch.attention.heads) * (2.0 * real(arch.attention.qk_dim()) + real(arch.attention.v_dim()));
  const double widths =
      20.0 * hidden + 8.0 * attention + 8.0 * real(arch.dense_ffn + arch.moe.shared_ffn) + 8.0 * real(arch.moe.experts);
  const double copies = tokens * real(scenario.layout.ep) * real(std::max<std::int64_t>(1, arch.moe.top_k));
  const double layer = 4.0 * (tokens * widths + copies * (8.0 * hidden + 8.0 * real(arch.moe.ffn)));
  const double in_flight = real(scenario.microbatches()) * real(most_layers(scenario));
  const double layer_parameters = hidden * (4.0 * attention + 3.0 * real(arch.dense_ffn + arch.moe.shared_ffn) +
                                            3.0 * real(arch.moe.experts) * real(arch.moe.ffn) + 20.0 * hidden);
  const double parameters = real(most_layers(scenario)) * layer_parameters + 2.0 * real(arch.vocab) * hidden;
  return layer * in_flight + 16.0 * tokens * real(arch.vocab) + 24.0 * parameters;
}

}  // namespace

void check_sizes(const Scenario& scenario, const Places& places, base::Faults& faults) {
  const model::Architecture& arch = scenario.model;
  const base::Where seq = places.where("training.seq_length");
  const base::Where mbs = places.where("training.micro_batch_size");
  const double tokens = real(scenario.training.micro_batch_size) * real(scenario.training.seq_length);
  const double copies = tokens * real(scenario.layout.ep) * real(std::max<std::int64_t>(1, arch.moe.top_k));
  const double of_all = tokens * real(scenario.layout.dp());
  const std::size_t before = faults.size();
  if (arch.moe.experts > kMaxExperts) {
    faults.add(places.where("model"),
               fmt::format("at most {} experts are supported, got {}", kMaxExperts, arch.moe.experts), {},
               {arch.where_experts});
  }
  if (arch.moe.top_k > kMaxTopK) {
    faults.add(places.where("model"),
               fmt::format("at most {} experts a token are supported, got {}", kMaxTopK, arch.moe.top_k), {},
               {arch.where_top_k});
  }
  if (copies > kMaxCount || of_all > kMaxCount) {
    faults.add(seq,
               fmt::format("one microbatch has {:.3g} tokens over all replicas, and {:.3g} token copies in one expert "
                           "group: more than 2^31 - 1 cannot be counted",
                           of_all, copies),
               {}, {mbs, places.where("cluster.gpus")});
  }
  if (faults.size() != before) return;
  const double bytes = most_bytes(scenario);
  if (bytes > kMaxRankBytes) {
    faults.add(seq,
               fmt::format("one rank may hold {:.3g} bytes: more than {:.0e} cannot be counted", bytes, kMaxRankBytes),
               {}, {mbs, places.where("training.global_batch_size"), arch.where_hidden});
  }
}

namespace {

// Ranks whose programs are run: where loads repeat, at most one expert group of each stage stands for all
// (plan/fold.h).
std::int64_t computed_ranks(const Scenario& scenario) {
  const bool repeats = !scenario.loads || scenario.loads->same_in_iteration();
  if (!repeats || scenario.policies.lrmoe || scenario.policies.capacity) return scenario.layout.world;
  return std::min(scenario.layout.world, scenario.layout.pp * scenario.layout.ep * scenario.layout.etp);
}

}  // namespace

double estimated_operations(const Scenario& scenario) {
  constexpr double kOfLayer = 60.0, kOfChunk = 24.0;  // forward and backward together, with recomputation
  const double steps = real(scenario.microbatches()) * real(scenario.training.iterations);
  const double visits = real(computed_ranks(scenario)) * real(most_layers(scenario)) * steps;
  const double operations = visits * (kOfLayer + kOfChunk * real(most_chunks(scenario.policies)));
  if (!scenario.policies.lrmoe && !scenario.policies.capacity) return operations;
  // Scoring and selecting a token copy takes about half as long as an operation.
  const double copies = real(scenario.training.global_batch_size) * real(scenario.training.seq_length) *
                        real(scenario.training.iterations) * real(scenario.model.moe.top_k) *
                        real(scenario.model.moe_layer_count());
  return operations + copies / 2.0;
}

double estimated_bytes(const Scenario& scenario) {
  // One iteration's decisions: per MoE layer, microbatch and expert group, for each chunk a matrix of members and the
  // rows of every expert; per rank what the engine and the report keep.
  const double ep = real(scenario.layout.ep), experts = real(scenario.model.moe.experts);
  const bool once = computed_ranks(scenario) < scenario.layout.world;
  const double groups = (once ? 1.0 : real(scenario.layout.edp()) * real(scenario.microbatches())) *
                        real(scenario.model.moe_layer_count());
  const double sides = scenario.policies.lrmoe ? 2.0 : 1.0;
  const double decision =
      400.0 + sides * real(most_chunks(scenario.policies)) * (4.0 * ep * ep + 12.0 * experts + 4.0 * ep + 120.0);
  return groups * decision + real(scenario.layout.world) * 4000.0;
}

void check_work(const Scenario& scenario, double limit, const Places& places, base::Faults& faults) {
  const double operations = estimated_operations(scenario), bytes = estimated_bytes(scenario);
  if (operations > kOperations * limit) {
    faults.add(
        places.where("training.global_batch_size"),
        fmt::format("needs about {:.1e} operations ({} ranks x {} layers of a stage x {} microbatches x {} iterations, "
                    "up to {} chunks), more than the bound of {:.1e}",
                    operations, computed_ranks(scenario), most_layers(scenario), scenario.microbatches(),
                    scenario.training.iterations, most_chunks(scenario.policies), kOperations * limit),
        fmt::format("--limit {:.0f} allows it", std::ceil(operations / kOperations)));
  }
  if (bytes > kWorkBytes * limit) {
    faults.add(
        places.where("cluster.gpus"),
        fmt::format(
            "needs about {:.1f} GiB of memory for the rows of {} expert groups, more than the bound of {:.1f} GiB",
            bytes / base::kGiB, scenario.layout.edp(), kWorkBytes * limit / base::kGiB),
        fmt::format("--limit {:.0f} allows it; a larger expert_model_parallel_size needs less",
                    std::ceil(bytes / kWorkBytes)));
  }
}

}  // namespace moeplan::scenario
