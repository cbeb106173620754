#include "search/evaluate.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/parallel.h"
#include "base/units.h"
#include "cost/kernels.h"
#include "model/parameters.h"
#include "plan/plan.h"
#include "routing/statistics.h"
#include "search/reserved_ranks.h"
#include "search/routing_summary.h"

namespace moeplan::search {

namespace {

int thread_count(int asked) {
  if (asked > 0) return asked;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// One iteration's plan, walked and timed.
struct Iteration {
  plan::Plan plan;
  std::vector<memory::RankMemory> memory;
  engine::StepTime time;
};

Iteration run_iteration(const std::shared_ptr<const scenario::Scenario>& scenario, std::int64_t index, int threads) {
  Iteration iteration{plan::make_plan(scenario, index, threads), {}, {}};
  const plan::Plan& plan = iteration.plan;
  // Time and memory need nothing of each other.
  std::future<engine::StepTime> time =
      std::async(threads > 1 ? std::launch::async : std::launch::deferred, [&plan] { return engine::run_step(plan); });
  iteration.memory.resize(static_cast<std::size_t>(scenario->layout.world));
  std::vector<std::int64_t> standing;
  for (std::int64_t rank = 0; rank < scenario->layout.world; ++rank)
    if (plan.representative_of(rank) == rank) standing.push_back(rank);
  base::parallel_for(standing.size(), threads, [&](std::size_t i) {
    iteration.memory[static_cast<std::size_t>(standing[i])] = memory::replay(plan, standing[i]);
  });
  for (std::int64_t rank = 0; rank < scenario->layout.world; ++rank) {
    const std::int64_t as = plan.representative_of(rank);
    memory::RankMemory& memory = iteration.memory[static_cast<std::size_t>(rank)];
    if (as != rank) memory = iteration.memory[static_cast<std::size_t>(as)];
    memory.rank = rank;
  }
  iteration.time = time.get();
  return iteration;
}

std::vector<StageSummary> summarise_stages(const Iteration& iteration, const std::vector<memory::RankMemory>& ranks) {
  const plan::Plan& plan = iteration.plan;
  const auto& scenario = *plan.scenario;
  std::vector<StageSummary> stages;
  for (std::int64_t s = 0; s < scenario.layout.pp; ++s) {
    StageSummary stage;
    stage.stage = s;
    stage.first_rank = s * scenario.layout.stage_size();
    stage.last_rank = stage.first_rank + scenario.layout.stage_size() - 1;
    const auto layers = scenario.stages.layers_of(s);
    stage.layer_count = static_cast<std::int64_t>(layers.size());
    for (const std::int32_t layer : layers) {
      if (stage.layer_ranges.empty() || stage.layer_ranges.back().second + 1 != layer)
        stage.layer_ranges.emplace_back(layer, layer);
      else
        stage.layer_ranges.back().second = layer;
    }
    stage.first_layer = layers.empty() ? -1 : layers.front();
    stage.last_layer = layers.empty() ? -1 : layers.back();
    stage.peak_rank = stage.first_rank;
    const double weight = 1.0 / static_cast<double>(scenario.layout.stage_size());
    for (std::int64_t r = stage.first_rank; r <= stage.last_rank; ++r) {
      const auto& memory = ranks[static_cast<std::size_t>(r)];
      if (memory.peak.allocated_bytes > stage.peak_allocated_bytes) {
        stage.peak_allocated_bytes = memory.peak.allocated_bytes;
        stage.peak_rank = r;
      }
      stage.static_bytes = memory.static_bytes;
      const auto& time = iteration.time.ranks[static_cast<std::size_t>(r)];
      stage.busy_s += weight * time.busy_s;
      stage.bubble_s += weight * time.parts.bubble_s;
    }
    if (!plan.memfine_max_rows.empty()) stage.s_max_rows = plan.memfine_max_rows[static_cast<std::size_t>(s)];
    stages.push_back(stage);
  }
  return stages;
}

// Largest activations (what is shown beside the replay) and largest total (what the verdict may be taken from) need not
// be of the same rank: static memory differs by stage. Returns this iteration's largest total.
double closed_form(Evaluation& evaluation, const plan::Plan& plan) {
  double total = 0;
  for (std::int64_t rank = 0; rank < plan.scenario->layout.world; ++rank) {
    if (plan.representative_of(rank) != rank) continue;
    const double bytes = memory::closed_form_activation_bytes(plan, rank);
    total = std::max(
        total, bytes + static_cast<double>(plan.statics[static_cast<std::size_t>(plan.stage_of(rank))].steady_bytes()));
    if (bytes <= evaluation.closed_form_activation_bytes) continue;
    evaluation.closed_form_activation_bytes = bytes;
    evaluation.closed_form_rank = rank;
  }
  evaluation.closed_form_total_bytes = std::max(evaluation.closed_form_total_bytes, total);
  return total;
}

// Ranks whose allocator was not replayed have the tails of blocks that the highest rank of their stage has, and load as
// it does.
void lend_tails(std::vector<memory::RankMemory>& ranks, const std::vector<StageSummary>& stages) {
  constexpr auto kTails = static_cast<std::size_t>(plan::TensorKind::block_tails);
  constexpr auto kLoad = static_cast<std::size_t>(memory::Phase::load);
  for (memory::RankMemory& rank : ranks) {
    if (rank.has_reserved()) continue;
    const auto& highest = ranks[static_cast<std::size_t>(stages[static_cast<std::size_t>(rank.stage)].peak_rank)];
    rank.phase_peak_bytes[kLoad] = highest.phase_peak_bytes[kLoad];
    if (highest.peak.phase == memory::Phase::load) {
      rank.peak = highest.peak;
      continue;
    }
    const std::int64_t tails = highest.peak.by_kind[kTails];
    rank.peak.by_kind[kTails] = tails;
    rank.peak.allocated_bytes += tails;
    rank.phase_peak_bytes[static_cast<std::size_t>(rank.peak.phase)] += tails;
  }
}

// Reserved bytes of the followed ranks, into the ranks and stages; the worst of them is the evaluation's.
void take_reserved(Evaluation& evaluation, const ReservedRanks& reserved, std::vector<StageSummary>& stages) {
  for (const ReservedRanks::Followed& one : reserved.followed()) {
    evaluation.ranks[static_cast<std::size_t>(one.best.rank)] = one.best;
    StageSummary& stage = stages[static_cast<std::size_t>(one.best.stage)];
    stage.peak_reserved_bytes = std::max(stage.peak_reserved_bytes, one.best.reserved_bytes);
    if (one.best.rank != stage.peak_rank) continue;
    stage.peak_allocated_bytes = one.best.peak.allocated_bytes;
    stage.phase_reserved_bytes = one.best.phase_reserved_bytes;
    stage.phase_allocated_bytes = one.best.phase_peak_bytes;
  }
  lend_tails(evaluation.ranks, stages);
  const ReservedRanks::Followed& worst = reserved.worst();
  evaluation.worst = worst.best;
  evaluation.alive = worst.alive;
  evaluation.failure = worst.replay.result().failure;
  const auto gib = [](std::int64_t bytes) { return base::format_gib(static_cast<double>(bytes)); };
  if (evaluation.failure) {
    const memory::AllocationFailure& f = *evaluation.failure;
    const std::string where = f.iteration < 0 ? "while loading" : "in iteration " + std::to_string(f.iteration + 1);
    evaluation.warnings.push_back("rank " + std::to_string(worst.best.rank) + " runs out of memory " + where + ": " +
                                  f.tensor + " of " + gib(f.bytes) + (f.op.empty() ? "" : " at " + f.op) + ", with " +
                                  gib(f.allocated_bytes) + " allocated and " + gib(f.reserved_bytes) + " reserved");
  } else if (worst.best.retries > 0) {
    evaluation.warnings.push_back("rank " + std::to_string(worst.best.rank) +
                                  " fits only because the allocator gives cached memory back, " +
                                  std::to_string(worst.best.retries) +
                                  " times in the replayed iterations: those steps are slower than predicted");
  }
}

// Where the ranks of a node together need more host memory than it has; "" where they do not, or nobody knows.
std::string host_memory_warning(const scenario::Scenario& scenario, const std::vector<memory::RankMemory>& ranks) {
  const auto& memory = scenario.hardware.host.memory;
  const auto per_node = static_cast<std::size_t>(scenario.hardware.network.gpus_per_node.value);
  double largest = 0;
  std::size_t node = 0;
  for (std::size_t first = 0; first < ranks.size(); first += per_node) {
    double bytes = 0;
    for (std::size_t r = first; r < std::min(ranks.size(), first + per_node); ++r)
      bytes += static_cast<double>(ranks[r].host_bytes);
    if (bytes > largest) {
      largest = bytes;
      node = first / per_node;
    }
  }
  if (largest == 0) return "";
  const std::string needs = "node " + std::to_string(node) + " keeps " + base::format_gib(largest) + " in host memory";
  if (!memory) return needs + "; the profile does not state how much it has (host.memory)";
  return largest > memory->value ? needs + ", more than its " + base::format_gib(memory->value) : "";
}

// Rows that a static buffer of HybridEP would not have held.
std::optional<std::string> rank_capacity_warning(const scenario::Scenario& scenario, const RoutingSummary& routing) {
  const auto& dispatch = scenario.dispatch;
  if (dispatch.kind != scenario::Dispatcher::hybridep || dispatch.rank_capacity_factor == 0) return std::nullopt;
  std::int64_t layers = 0;
  double worst = 0;
  for (const LayerRouting& layer : routing.layers) {
    if (layer.max_received_over_mean <= dispatch.rank_capacity_factor) continue;
    ++layers;
    worst = std::max(worst, layer.max_received_over_mean);
  }
  if (layers == 0) return std::nullopt;
  return "moe.expert_rank_capacity_factor: ranks get up to " + std::to_string(worst) +
         " times the mean rows, more than their buffers hold, in " + std::to_string(layers) + " layers";
}

}  // namespace

std::string verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "FITS";
    case Verdict::tight:
      return "TIGHT";
    case Verdict::oom:
      return "OOM";
  }
  return "";
}

Fit judge(std::int64_t device_bytes, std::int64_t usable_bytes, std::int64_t capacity_bytes) {
  Fit fit;
  fit.device_bytes = device_bytes;
  fit.usable_bytes = usable_bytes;
  fit.capacity_bytes = capacity_bytes;
  fit.headroom_fraction = static_cast<double>(usable_bytes - device_bytes) / static_cast<double>(usable_bytes);
  fit.verdict = device_bytes > usable_bytes    ? Verdict::oom
                : fit.headroom_fraction < 0.05 ? Verdict::tight
                                               : Verdict::fits;
  return fit;
}

Distribution distribution(std::vector<double> values) {
  MOEPLAN_CHECK(!values.empty(), "a distribution needs values");
  std::sort(values.begin(), values.end());
  auto at = [&](double quantile) {
    const auto rank = static_cast<std::size_t>(std::ceil(quantile * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(rank, 1) - 1];
  };
  return Distribution{at(0.50), at(0.95), at(0.99), values.back()};
}

Evaluation evaluate(std::shared_ptr<const scenario::Scenario> scenario, int threads,
                    const std::vector<std::int64_t>& reserved_of, bool keep_plan) {
  const int workers = thread_count(threads);
  Evaluation evaluation;
  evaluation.scenario = scenario;
  evaluation.iterations = scenario->training.iterations;
  RoutingCollector routing(*scenario);
  std::vector<double> steps, peaks;
  std::vector<engine::TimeParts> means;
  std::vector<std::vector<StageSummary>> stages;
  const bool closed = scenario->memory.accounting == scenario::Accounting::closed_form;
  ReservedRanks reserved(reserved_of);
  for (std::int64_t i = 0; i < evaluation.iterations; ++i) {
    Iteration iteration = run_iteration(scenario, i, workers);
    routing.add(iteration.plan);
    evaluation.ops += iteration.time.ops;
    steps.push_back(iteration.time.step_s);
    means.push_back(iteration.time.mean);
    if (evaluation.ranks.empty()) evaluation.ranks = iteration.memory;
    for (std::size_t r = 0; r < evaluation.ranks.size(); ++r)
      if (iteration.memory[r].device_bytes() > evaluation.ranks[r].device_bytes())
        evaluation.ranks[r] = iteration.memory[r];
    stages.push_back(summarise_stages(iteration, evaluation.ranks));
    const std::int64_t device = reserved.add(iteration.plan, iteration.memory, workers);
    const double closed_total = closed_form(evaluation, iteration.plan);
    peaks.push_back(closed ? closed_total : static_cast<double>(device));
    if (i + 1 == evaluation.iterations) reserved.finish(iteration.plan, workers);
    if (keep_plan && evaluation.iterations == 1)
      evaluation.plan = std::make_shared<const plan::Plan>(std::move(iteration.plan));
  }
  take_reserved(evaluation, reserved, stages.back());
  // What more rounds of the last iteration take belongs to it.
  if (!closed) peaks.back() = std::max(peaks.back(), static_cast<double>(evaluation.worst.device_bytes()));
  const auto& shown = evaluation.ranks[static_cast<std::size_t>(evaluation.closed_form_rank)];
  evaluation.replay_activation_bytes =
      shown.phase_peak_bytes[static_cast<std::size_t>(memory::Phase::steady_iteration)] - shown.static_bytes;
  evaluation.routing = routing.summary();
  evaluation.step_distribution = distribution(steps);
  evaluation.peak_distribution = distribution(peaks);
  evaluation.step_s = evaluation.step_distribution.p50;
  const auto median =
      static_cast<std::size_t>(std::find(steps.begin(), steps.end(), evaluation.step_s) - steps.begin());
  evaluation.mean = means[median];
  evaluation.median_iteration = static_cast<std::int64_t>(median);
  if (keep_plan && !evaluation.plan)
    evaluation.plan =
        std::make_shared<const plan::Plan>(plan::make_plan(scenario, evaluation.median_iteration, workers));
  evaluation.stages = stages.back();
  for (std::size_t s = 0; s < evaluation.stages.size(); ++s) {
    evaluation.stages[s].busy_s = stages[median][s].busy_s;
    evaluation.stages[s].bubble_s = stages[median][s].bubble_s;
  }

  const auto device = closed ? static_cast<std::int64_t>(std::llround(evaluation.closed_form_total_bytes))
                             : evaluation.worst.device_bytes();
  evaluation.fit = judge(device, scenario->usable_bytes(), scenario->capacity_bytes());
  if (closed && evaluation.fit.verdict != Verdict::oom && evaluation.worst.device_bytes() > scenario->usable_bytes())
    evaluation.warnings.push_back("the verdict is the closed form's; the replay of tensors does not fit: " +
                                  base::format_gib(static_cast<double>(evaluation.worst.device_bytes())) + " on rank " +
                                  std::to_string(evaluation.worst.rank));
  if (const std::string host = host_memory_warning(*scenario, evaluation.ranks); !host.empty())
    evaluation.warnings.push_back(host);
  if (const auto warning = rank_capacity_warning(*scenario, evaluation.routing))
    evaluation.warnings.push_back(*warning);
  double over = 0;
  for (double peak : peaks)
    if (peak > static_cast<double>(scenario->usable_bytes())) ++over;
  evaluation.overflow_probability = over / static_cast<double>(peaks.size());

  const double tokens =
      static_cast<double>(scenario->training.global_batch_size) * static_cast<double>(scenario->training.seq_length);
  evaluation.flops_per_token = model::training_flops_per_token(scenario->model, scenario->training.seq_length);
  // Work that was dropped was not done: it must not raise the rate (the convention counts every token's top-k).
  const auto& arch = scenario->model;
  if (evaluation.routing.dropped_share > 0) {
    const double matrices = arch.mlp == model::MlpKind::swiglu ? 3.0 : 2.0;
    evaluation.flops_per_token -= evaluation.routing.dropped_share * 6.0 * matrices *
                                  static_cast<double>(arch.moe_layer_count()) * static_cast<double>(arch.hidden) *
                                  static_cast<double>(arch.moe.top_k * arch.moe.ffn);
  }
  evaluation.tokens_per_s_per_gpu = tokens / evaluation.step_s / static_cast<double>(scenario->layout.world);
  evaluation.model_flops_per_gpu = evaluation.tokens_per_s_per_gpu * evaluation.flops_per_token;
  evaluation.mfu_peak_flops =
      cost::datasheet_peak(scenario->hardware, scenario::cost_precision(scenario->training.precision));
  evaluation.mfu = evaluation.model_flops_per_gpu / evaluation.mfu_peak_flops;
  return evaluation;
}

void evaluate_exchanges(Evaluation& evaluation) {
  MOEPLAN_CHECK(evaluation.plan != nullptr, "exchanges are those of a plan that was kept");
  const plan::Plan& plan = *evaluation.plan;
  const engine::Exchanges exchanges = engine::exchanges_of(plan);
  evaluation.exchanges = exchanges.kinds;
  evaluation.nic_overlap = engine::nic_overlap(plan, evaluation.ops / evaluation.iterations);
  if (plan.cluster.oversubscription() <= 1 && !plan.cluster.degraded()) return;
  evaluation.step_l1_s =
      exchanges.factors.any() ? engine::run_step(plan, &exchanges.factors).step_s : evaluation.step_s;
}

}  // namespace moeplan::search
