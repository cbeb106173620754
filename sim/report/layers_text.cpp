#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "report/format.h"
#include "report/report.h"
#include "report/table.h"

namespace moeplan::report {
namespace {

using search::LayerMetric;
std::string exact_percent(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

std::string signed_fine(double fraction) { return fmt::format("{:+.2f} %", 100 * fraction); }

std::string rows_text(const search::LayerValidation& validation) {
  Table table({{"line"},
               {"distribution", Align::left},
               {"backward", Align::left},
               {"chunks"},
               {"retention"},
               {"forward"},
               {"error"},
               {"backward"},
               {"error"},
               {"peak"},
               {"error"},
               {"reserved"},
               {"error"}});
  for (const search::LayerRow& row : validation.rows) {
    if (!row.predicted) continue;
    const measurements::LayerRun& run = *row.run;
    const auto error = [&](LayerMetric metric) {
      return signed_fine(search::predicted_of(*row.predicted, metric) / search::measured_of(run, metric) - 1);
    };
    const bool forward = run.forward_peak_bytes > run.backward_peak_bytes;
    const LayerMetric peak = forward ? LayerMetric::forward_peak : LayerMetric::backward_peak;
    table.add({std::to_string(run.where.line), run.distribution, run.backward, std::to_string(run.chunks),
               fmt::format("{:g}", run.retention), base::format_time(run.forward_s), error(LayerMetric::forward_time),
               base::format_time(run.backward_s), error(LayerMetric::backward_time),
               base::format_gib(search::measured_of(run, peak)), error(peak),
               base::format_gib(static_cast<double>(run.peak_reserved_bytes)), error(LayerMetric::reserved)});
  }
  return table.empty() ? std::string()
                       : "\nMeasured, and error of the prediction (predicted / measured - 1)\n" + table.text();
}

// Times by their median and worst, bytes by their worst: one tensor that is counted wrongly shows in any run.
std::string summary_text(const search::LayerValidation& validation) {
  Table table({{"of", Align::left},
               {"", Align::left},
               {"runs"},
               {"step median"},
               {"worst"},
               {"forward median"},
               {"backward median"},
               {"peak worst"},
               {"reserved worst"}});
  for (const search::LayerSummary& s : validation.summary) {
    if (s.count == 0) continue;
    const auto of = [&](LayerMetric metric) { return s.errors[static_cast<std::size_t>(metric)]; };
    const double peak =
        std::max(of(LayerMetric::forward_peak).worst_absolute, of(LayerMetric::backward_peak).worst_absolute);
    table.add({s.by, s.value, std::to_string(s.count), exact_percent(of(LayerMetric::step_time).median_absolute),
               exact_percent(of(LayerMetric::step_time).worst_absolute),
               exact_percent(of(LayerMetric::forward_time).median_absolute),
               exact_percent(of(LayerMetric::backward_time).median_absolute), exact_percent(peak),
               exact_percent(of(LayerMetric::reserved).worst_absolute)});
  }
  return table.empty() ? std::string() : "\nSizes of the errors\n" + table.text();
}

std::string curve_text(const search::ChunkCurve& curve) {
  std::string text =
      fmt::format("\nChunks: {} tokens, hidden {}, {} experts of {}, top-{}, {}, {}\n", curve.tokens, curve.hidden,
                  curve.experts, curve.ffn, curve.top_k, curve.distribution, curve.library);
  Table table({{"chunks"}, {"peak"}, {"predicted"}, {"error"}, {"step"}, {"predicted"}, {"error"}});
  for (std::size_t i = 0; i < curve.chunks.size(); ++i) {
    const auto &m = curve.measured, &p = curve.predicted;
    table.add({std::to_string(curve.chunks[i]), base::format_gib(m.bytes[i]), base::format_gib(p.bytes[i]),
               signed_fine(p.bytes[i] / m.bytes[i] - 1), base::format_time(m.step_s[i]), base::format_time(p.step_s[i]),
               signed_fine(p.step_s[i] / m.step_s[i] - 1)});
  }
  text += table.text();
  const auto form = [](const char* name, const search::ChunkCurve::Side& side) {
    return wrapped("  ", fmt::format("{}: {} + {} / chunks, at most {} off", name, base::format_gib(side.fixed_bytes),
                                     base::format_gib(side.divided_bytes), exact_percent(side.worst_residual)));
  };
  return text + form("Measured peak", curve.measured) + form("Predicted peak", curve.predicted);
}

}  // namespace

std::string layers_text(const search::LayerValidation& validation) {
  std::string text = fmt::format("{} of {} layer runs predicted, {} skipped, {} with errors\n", validation.ok,
                                 validation.rows.size(), validation.skipped, validation.errors);
  text += rows_text(validation);
  text += summary_text(validation);
  for (const search::ChunkCurve& curve : validation.curves) text += curve_text(curve);
  for (const search::LayerRow& row : validation.rows)
    if (row.status == measurements::Status::skipped)
      text += "\n" + wrapped("Skipped  ", fmt::format("line {}: {}", row.run->where.line, row.reason));
  for (const std::string& what : validation.left_out) text += "\n" + wrapped("Not run  ", what);
  return text;
}

}  // namespace moeplan::report
