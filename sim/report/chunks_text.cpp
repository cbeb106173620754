#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/units.h"
#include "report/breakdown.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/report.h"
#include "report/table.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

constexpr std::size_t kWidth = 110;

const search::ChunkPoint* adaptive_point(const search::ChunkSweep& sweep) {
  for (const search::ChunkPoint& point : sweep.curve) {
    if (point.rule == "adaptive") return &point;
  }
  return nullptr;
}

std::string curve_table(const search::ChunkSweep& sweep) {
  Table table({{"rule", Align::left},
               {"chunks"},
               {"peak alloc."},
               {"routed"},
               {"activations"},
               {"closed form"},
               {"gap"},
               {"step"},
               {"vs none"},
               {"fits", Align::left}});
  const double none = sweep.curve.empty() ? 0.0 : sweep.curve.front().evaluation.step_s;
  for (const search::ChunkPoint& point : sweep.curve) {
    const search::Evaluation& e = point.evaluation;
    table.add({point.rule, point.chunks > 0 ? fmt::format("{}", point.chunks) : "-", gib(e.worst.peak.allocated_bytes),
               gib(routed_peak_bytes(e)), gib(e.replay_activation_bytes), gib(e.closed_form_activation_bytes),
               fmt::format("{:+.0f} %", 100.0 * closed_form_gap(e)), base::format_time(e.step_s),
               percent_change(e.step_s, none), search::verdict_name(e.fit.verdict)});
  }
  return table.text();
}

std::string budget_table(const search::Evaluation& adaptive) {
  Table table({{"stage"}, {"layers"}, {"s'_max rows"}});
  for (const search::StageSummary& stage : adaptive.stages) {
    table.add({fmt::format("{}", stage.stage), layers_text(stage), fmt::format("{:.0f}", stage.s_max_rows)});
  }
  return "\nRows that a layer may receive unchunked under the adaptive rule\n" + table.text();
}

std::string chunks_of(std::int64_t count) { return fmt::format("{} chunk{}", count, count == 1 ? "" : "s"); }

// The count that was chosen everywhere; nothing when several were.
std::optional<std::int64_t> only_count(const search::ChunkSweep& sweep) {
  std::set<std::int64_t> counts;
  for (const search::ChunkSweep::Chosen& chosen : sweep.chosen) {
    for (const auto& [chunks, times] : chosen.times) counts.insert(chunks);
  }
  if (counts.size() != 1) return std::nullopt;
  return *counts.begin();
}

// Layers by microbatches where that fits the width, else how often each count was chosen.
std::string chosen_grid(const search::ChunkSweep& sweep, const search::RoutingSummary& routing) {
  if (const std::optional<std::int64_t> same = only_count(sweep)) {
    return fmt::format("\nThe adaptive rule takes {} in every layer and microbatch\n", chunks_of(*same));
  }
  std::size_t cell = 1, microbatches = 0, layer_width = 5;
  for (const search::LayerRouting& layer : routing.layers) {
    microbatches = std::max(microbatches, layer.chunks_by_microbatch.size());
    for (const std::int64_t chunks : layer.chunks_by_microbatch)
      cell = std::max(cell, fmt::format("{}", chunks).size());
  }
  std::string text;
  if (microbatches > 0 && 2 + layer_width + 1 + microbatches * (cell + 1) <= kWidth) {
    text = fmt::format("\nChunks that the adaptive rule takes: layers down, microbatches 0 to {} across\n",
                       microbatches - 1);
    for (const search::LayerRouting& layer : routing.layers) {
      std::string line = "  " + padded(fmt::format("{}", layer.layer), layer_width, Align::right) + " ";
      for (const std::int64_t chunks : layer.chunks_by_microbatch) {
        line += " " + padded(fmt::format("{}", chunks), cell, Align::right);
      }
      text += line + "\n";
    }
    return text;
  }
  text = "\nChunks that the adaptive rule takes: layer: count x microbatches\n";
  for (const search::ChunkSweep::Chosen& chosen : sweep.chosen) {
    std::vector<std::string> parts;
    for (const auto& [chunks, times] : chosen.times) parts.push_back(fmt::format("{} x {}", chunks, times));
    text +=
        wrapped("  " + padded(fmt::format("{}", chosen.layer), layer_width, Align::right) + ": ", joined(parts, ", "));
  }
  return text;
}

}  // namespace

std::string chunks_text(const search::ChunkSweep& sweep) {
  const auto& recommendation = sweep.recommendation;
  std::string text = wrapped(recommendation.fits ? "RECOMMENDED  " : "OOM  ", recommendation.reason);
  text += "\n" + curve_table(sweep);
  text +=
      wrapped("  ",
              "routed: most bytes whose size follows the routed rows (dispatch, experts, combine) that one rank holds "
              "at once (replay); "
              "activations: all of them at the peak of the closed form's rank (replay); closed form: MemFine's "
              "equation 2; gap: closed form against activations");
  if (!sweep.curve.empty() && by_closed_form(sweep.curve.front().evaluation)) {
    text += wrapped("  ", "fits: static memory plus the closed form (memory.accounting)");
  }
  if (const search::ChunkPoint* adaptive = adaptive_point(sweep)) {
    text += budget_table(adaptive->evaluation);
    if (!sweep.chosen.empty()) text += chosen_grid(sweep, adaptive->evaluation.routing);
  }
  if (!sweep.curve.empty()) {
    const search::Evaluation& first = sweep.curve.front().evaluation;
    text += "\n" + wrapped("Routing     ", without_absolute_paths(first.routing.source));
    text += wrapped("Provenance  ", fmt::format("moeplan {}, profile {}, seed {}", kVersion,
                                                first.scenario->hardware.id, first.scenario->seed));
    for (const std::string& warning : short_warnings_of(first)) text += wrapped("Warning     ", warning);
  }
  return text;
}

}  // namespace moeplan::report
