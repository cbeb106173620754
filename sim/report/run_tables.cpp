#include "report/run_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/units.h"
#include "report/breakdown.h"
#include "report/format.h"
#include "report/table.h"

namespace moeplan::report {
namespace {

using search::Evaluation;

constexpr std::size_t kAllRanks = 16, kHighest = 8, kTensors = 10;

// Ranks to show, in order, and what the heading says about the choice.
std::vector<std::size_t> shown_ranks(const Evaluation& evaluation) {
  std::vector<std::size_t> order(evaluation.ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order.size() <= kAllRanks) return order;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return evaluation.ranks[a].device_bytes() > evaluation.ranks[b].device_bytes();
  });
  order.erase(order.begin() + kHighest, order.end() - 1);
  return order;
}

// The layer with the largest value, as "3.21 (layer 7)".
template <class Value>
std::string worst_layer(const Evaluation& evaluation, const Value& value) {
  const auto& layers = evaluation.routing.layers;
  const auto worst =
      std::max_element(layers.begin(), layers.end(), [&](const auto& a, const auto& b) { return value(a) < value(b); });
  return fmt::format("{} (layer {})", ratio(value(*worst)), worst->layer);
}

}  // namespace

std::string stages_table(const Evaluation& evaluation) {
  const bool budget = std::any_of(evaluation.stages.begin(), evaluation.stages.end(),
                                  [](const auto& stage) { return stage.s_max_rows > 0; });
  std::vector<Table::Column> columns = {{"stage"},    {"ranks"},   {"layers"}, {"static"}, {"peak allocated"},
                                        {"reserved"}, {"on rank"}, {"busy"},   {"bubble"}};
  if (budget) columns.push_back({"s'_max rows"});
  Table table(std::move(columns));
  for (const search::StageSummary& stage : evaluation.stages) {
    std::vector<std::string> cells = {fmt::format("{}", stage.stage),
                                      fmt::format("{}-{}", stage.first_rank, stage.last_rank),
                                      layers_text(stage),
                                      gib(stage.static_bytes),
                                      gib(stage.peak_allocated_bytes),
                                      gib(stage.peak_reserved_bytes),
                                      fmt::format("{}", stage.peak_rank),
                                      base::format_time(stage.busy_s),
                                      base::format_time(stage.bubble_s)};
    if (budget) cells.push_back(fmt::format("{:.0f}", stage.s_max_rows));
    table.add(std::move(cells));
  }
  return "Pipeline stages\n" + table.text();
}

std::string ranks_table(const Evaluation& evaluation) {
  Table table({{"rank"},
               {"stage"},
               {"static"},
               {"peak allocated"},
               {"routed"},
               {"reserved"},
               {"device"},
               {"of usable"},
               {"phase of the peak", Align::left}});
  for (const std::size_t index : shown_ranks(evaluation)) {
    const memory::RankMemory& rank = evaluation.ranks[index];
    const double share = static_cast<double>(rank.device_bytes()) / static_cast<double>(evaluation.fit.usable_bytes);
    table.add({fmt::format("{}", rank.rank), fmt::format("{}", rank.stage), gib(rank.static_bytes),
               gib(rank.peak.allocated_bytes), gib(rank.routed_peak_bytes),
               rank.has_reserved() ? gib(rank.reserved_bytes) : "-", gib(rank.device_bytes()), percent(share),
               std::string(memory::phase_name(rank.peak.phase))});
  }
  const std::string heading = evaluation.ranks.size() <= kAllRanks
                                  ? "Ranks (-: not replayed through the allocator; device is then allocated + outside)"
                                  : fmt::format(
                                        "Ranks (-: allocator not replayed; device is then allocated + outside): the {} "
                                        "of {} with the most device memory, and the one with the least",
                                        kHighest, evaluation.ranks.size());
  return heading + "\n" + table.text();
}

std::string breakdown_table(const Evaluation& evaluation) {
  const memory::RankMemory& worst = evaluation.worst;
  const plan::BytesByKind fixed = static_by_kind(evaluation);
  Table table({{"kind", Align::left}, {"static"}, {"at the peak"}, {"share"}});
  const double device = static_cast<double>(worst.device_bytes());
  const auto row = [&](std::string name, std::int64_t always, std::int64_t peak) {
    table.add({std::move(name), gib(always), gib(peak), percent(device > 0 ? static_cast<double>(peak) / device : 0)});
  };
  for (std::size_t kind = 0; kind < plan::kTensorKinds; ++kind) {
    if (fixed[kind] == 0 && worst.peak.by_kind[kind] == 0) continue;
    row(std::string(plan::tensor_kind_name(static_cast<plan::TensorKind>(kind))), fixed[kind],
        worst.peak.by_kind[kind]);
  }
  row("fragmentation", 0, worst.fragmentation_bytes());
  row("outside the allocator", worst.outside_bytes, worst.outside_bytes);
  row("device", std::accumulate(fixed.begin(), fixed.end(), worst.outside_bytes), worst.device_bytes());
  return fmt::format("Memory of rank {}\n", worst.rank) + table.text();
}

std::string alive_table(const Evaluation& evaluation) {
  Table table({{"tensor", Align::left}, {"kind", Align::left}, {"count"}, {"size"}});
  const std::size_t shown = std::min(kTensors, evaluation.alive.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const memory::AliveTensor& tensor = evaluation.alive[i];
    table.add(
        {tensor.name, std::string(plan::tensor_kind_name(tensor.kind)), thousands(tensor.count), gib(tensor.bytes)});
  }
  const std::string of =
      evaluation.alive.size() > shown ? fmt::format(" ({} largest of {})", shown, evaluation.alive.size()) : "";
  return fmt::format("Alive at the peak of rank {}{}\n", evaluation.worst.rank, of) + table.text();
}

std::string time_table(const Evaluation& evaluation) {
  Table table({{"step time", Align::left}, {"mean over ranks"}, {"share"}});
  const double total = evaluation.mean.total();
  for (const TimePart& part : time_parts(evaluation.mean)) {
    if (part.seconds == 0.0) continue;
    table.add({part.name, base::format_time(part.seconds), percent(total > 0 ? part.seconds / total : 0)});
  }
  table.add({"sum", base::format_time(total), "100 %"});
  return "Where the time goes\n" + table.text();
}

std::string sensitivities_table(const Evaluation& evaluation) {
  if (evaluation.sensitivities.empty()) return "";
  constexpr double kShown = 0.0005;  // percent: what the last place of the table would round to nothing
  Table table({{"value of the profile, 1 % higher", Align::left}, {"value (base units)"}, {"step"}});
  std::size_t without = 0;
  for (const search::Sensitivity& one : evaluation.sensitivities) {
    if (std::abs(one.step_change_per_percent) < kShown) {
      ++without;
      continue;
    }
    table.add({one.key, fmt::format("{:.6g}", one.value), fmt::format("{:+.3f} %", one.step_change_per_percent)});
  }
  return "Sensitivity of the step (peak memory does not change)\n" + table.text() +
         fmt::format("  {} other values of the profile change it by less than {} %\n", without, kShown);
}

std::string routing_table(const Evaluation& evaluation) {
  const search::RoutingSummary& routing = evaluation.routing;
  if (routing.layers.empty()) return "";
  Table table({{"max over mean", Align::left}, {"mean of layers"}, {"worst"}});
  table.add({"expert", ratio(routing.max_over_mean_expert),
             worst_layer(evaluation, [](const auto& layer) { return layer.max_over_mean_expert; })});
  table.add({"rank", ratio(routing.max_over_mean_rank),
             worst_layer(evaluation, [](const auto& layer) { return layer.max_over_mean_rank; })});
  std::string text = "Routing of one step\n" + table.text();
  const auto busiest = std::max_element(routing.layers.begin(), routing.layers.end(), [](const auto& a, const auto& b) {
    return a.max_received_rows < b.max_received_rows;
  });
  text += fmt::format(
      "  most rows that one rank receives in one microbatch: {} (layer {}, rank {}), {:.2f} times its group's mean\n",
      thousands(busiest->max_received_rows), busiest->layer, busiest->max_received_rank,
      busiest->max_received_over_mean);
  if (routing.dropped_share > 0)
    text += fmt::format("  expert capacity: {:.2f} % of the token copies are dropped\n", 100.0 * routing.dropped_share);
  if (routing.selects) {
    text += fmt::format("  LRMoE: backward keeps {:.2f} % of the rows and {:.2f} % of the score\n",
                        100.0 * routing.retained_row_share, 100.0 * routing.retained_score_share);
  }
  return text;
}

std::string iterations_table(const Evaluation& evaluation) {
  if (evaluation.iterations < 2) return "";
  Table table({{"over iterations", Align::left}, {"p50"}, {"p95"}, {"p99"}, {"max"}});
  const search::Distribution& step = evaluation.step_distribution;
  const search::Distribution& peak = evaluation.peak_distribution;
  table.add({"step time", base::format_time(step.p50), base::format_time(step.p95), base::format_time(step.p99),
             base::format_time(step.max)});
  table.add({"largest device memory", gib(peak.p50), gib(peak.p95), gib(peak.p99), gib(peak.max)});
  return fmt::format("{} iterations, {} of them above what is usable\n", evaluation.iterations,
                     percent(evaluation.overflow_probability)) +
         table.text();
}

}  // namespace moeplan::report
