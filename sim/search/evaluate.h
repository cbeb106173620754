#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/exchanges.h"
#include "engine/nic_overlap.h"
#include "engine/step.h"
#include "memory/replay.h"
#include "memory/reserved.h"
#include "scenario/scenario.h"
#include "search/sensitivities.h"
#include "search/uncertainty.h"

// A scenario evaluated: plan, memory replay of every rank and timed step, for each iteration asked for. Plain numbers
// that reports print.
namespace moeplan::search {

enum class Verdict { fits, tight, oom };    // tight: fits with less than 5 % headroom
std::string verdict_name(Verdict verdict);  // "FITS", "TIGHT", "OOM"

// What decides the verdict. Replay: reserved + outside of the rank with the largest device bytes. Closed form: static
// + activations of MemFine's equations.
struct Fit {
  Verdict verdict = Verdict::fits;
  std::int64_t device_bytes = 0, usable_bytes = 0, capacity_bytes = 0;
  double headroom_fraction = 0;  // (usable - device) / usable; negative when it does not fit
};
// Boundaries: OOM when device > usable; TIGHT when headroom < 0.05.
Fit judge(std::int64_t device_bytes, std::int64_t usable_bytes, std::int64_t capacity_bytes);

struct StageSummary {
  std::int64_t stage = 0, first_rank = 0, last_rank = 0, first_layer = 0, last_layer = 0,
               layer_count = 0;  // -1 without layers; with virtual stages those between belong to other stages too
  std::int64_t peak_allocated_bytes = 0, peak_rank = 0, static_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;  // largest of the ranks whose allocator is replayed
  std::array<std::int64_t, memory::kPhases> phase_reserved_bytes{}, phase_allocated_bytes{};  // of peak_rank
  double busy_s = 0, bubble_s = 0;  // means over the stage's ranks
  double s_max_rows = 0;            // with MemFine: rows that the adaptive rule allows; else 0
  std::vector<std::pair<std::int64_t, std::int64_t>> layer_ranges;  // (first, last), several with virtual stages
};

// One MoE layer. Imbalance is that of one step: each iteration by itself, then the mean over iterations.
struct LayerRouting {
  int layer = 0;
  double max_over_mean_expert = 0, max_over_mean_rank = 0;  // over the step's microbatches and EP groups together
  std::int64_t max_received_rows = 0;              // s'': largest of one rank in one microbatch, over iterations
  std::int64_t max_received_rank = 0;              // that rank
  double max_received_over_mean = 0;               // s'' over the mean of its group in that microbatch
  std::vector<std::int64_t> chunks_by_microbatch;  // largest over EP groups and iterations
  std::map<std::int64_t, std::int64_t>
      decisions_by_chunks;  // chunk count -> decisions: one a microbatch, EP group and iteration
};

struct RoutingSummary {
  std::string source;
  std::vector<std::string> notes;
  double repeats = 0;
  std::int64_t tokens = 0;                                  // of one step
  double max_over_mean_expert = 0, max_over_mean_rank = 0;  // means over layers
  double worst_max_over_mean_expert = 0, worst_max_over_mean_rank = 0;
  std::vector<LayerRouting> layers;
  double retained_row_share = 1, retained_score_share = 1;  // of backward; 1 without selection
  bool selects = false;
  double dropped_share = 0;  // of the pairs that the router chose, above an expert capacity
  double moved_bytes = 0;    // of experts' weights and gradients between ranks, in one step
};

struct Distribution {
  double p50 = 0, p95 = 0, p99 = 0, max = 0;
};
// Nearest-rank quantiles of a non-empty list.
Distribution distribution(std::vector<double> values);

struct Evaluation {
  std::shared_ptr<const scenario::Scenario> scenario;
  Fit fit;
  memory::RankMemory worst;  // rank with the largest device bytes (lowest rank on ties), of those whose allocator is
                             // replayed: each stage's highest allocated peak
  std::optional<memory::AllocationFailure> failure;  // the first allocation of that rank that does not fit
  std::vector<memory::AliveTensor> alive;            // at the worst rank's peak
  std::vector<memory::RankMemory> ranks;             // per rank: its highest over the iterations
  double closed_form_activation_bytes = 0;           // largest over ranks
  std::int64_t closed_form_rank = 0;
  std::int64_t replay_activation_bytes = 0;  // of the same rank: peak minus static
  double closed_form_total_bytes = 0;        // largest static + closed form over ranks and iterations
  double step_s = 0;                         // median over iterations
  double tokens_per_s_per_gpu = 0, model_flops_per_gpu = 0, mfu = 0;
  double mfu_peak_flops = 0;  // what mfu is a share of: dense FLOP/s of the datasheet in the precision of training
  double flops_per_token = 0;
  engine::TimeParts mean;  // over ranks, of the median iteration
  std::vector<StageSummary> stages;
  RoutingSummary routing;
  std::int64_t iterations = 1, median_iteration = 0;
  Distribution step_distribution, peak_distribution;  // over iterations; peak: largest device bytes in an iteration
  double overflow_probability = 0;                    // share of iterations whose peak is above usable
  std::vector<std::string> warnings;                  // of the evaluation, beside the scenario's
  std::int64_t ops = 0;                               // engine ops evaluated, for --stats
  std::shared_ptr<const plan::Plan> plan;             // of the median iteration, where it was asked for
  std::vector<engine::ExchangeKind> exchanges;        // of that plan
  std::optional<double> step_l1_s;  // of that plan with every exchange at L1, where links block or are degraded
  std::optional<engine::NicOverlap> nic_overlap;  // of that plan, by ports; nothing where the step has too many ops
  std::optional<Uncertainty> uncertainty;         // where it was asked for (run)
  std::vector<Sensitivity> sensitivities;         // where they were asked for (run --sensitivities)
};

// Fills `exchanges`, `step_l1_s` and `nic_overlap`; `plan` must be there.
void evaluate_exchanges(Evaluation& evaluation);

// threads <= 0: as many as the machine has. Same result whatever the number. `reserved_of`: ranks whose allocator is
// replayed besides those of `worst`. `keep_plan`: fill `plan`, which is large.
Evaluation evaluate(std::shared_ptr<const scenario::Scenario> scenario, int threads = 0,
                    const std::vector<std::int64_t>& reserved_of = {}, bool keep_plan = false);

}  // namespace moeplan::search
