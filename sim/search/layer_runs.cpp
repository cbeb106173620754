#include "search/layer_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/nearest.h"

namespace moeplan::search {
namespace {

using measurements::LayerRun;
using measurements::Status;

constexpr LayerMetric kAll[kLayerMetrics] = {LayerMetric::forward_time,  LayerMetric::backward_time,
                                             LayerMetric::step_time,     LayerMetric::forward_peak,
                                             LayerMetric::backward_peak, LayerMetric::reserved};

LayerRow judge(const LayerRun& run, const measurements::Profiles& profiles, const topology::HardwareProfile* fixed) {
  LayerRow row;
  row.run = &run;
  row.status = run.status;
  row.reason = run.reason;
  if (row.status != Status::ok) {
    if (row.reason.empty() && !run.faults.empty()) {
      const base::Fault& fault = run.faults.front();  // the row says where
      row.reason = (fault.where.key.empty() ? "" : fault.where.key + ": ") + fault.message;
    }
    return row;
  }
  const topology::HardwareProfile* profile = fixed != nullptr ? fixed : profiles.find(run.gpu);
  const auto skip = [&](std::string reason) {
    row.status = Status::skipped;
    row.reason = std::move(reason);
    return row;
  };
  if (profile == nullptr) {
    const std::string hint = base::nearest_hint(run.gpu, profiles.names());
    return skip(
        fmt::format("no profile is called '{}'{}", base::shown_cell(run.gpu), hint.empty() ? "" : " (" + hint + ")"));
  }
  if (fixed != nullptr && measurements::Profiles({*fixed}).find(run.gpu) == nullptr)
    return skip(fmt::format("of another device: '{}' is no name of profile {}", base::shown_cell(run.gpu), fixed->id));
  row.profile = profile->id;
  try {
    row.predicted = predict_layer(run, *profile);
  } catch (const base::Error& error) {  // larger than what can be simulated
    return skip(error.faults().front().message);
  }
  return row;
}

LayerSummary summarize(std::string by, std::string value, const std::vector<const LayerRow*>& rows) {
  LayerSummary summary;
  summary.by = std::move(by);
  summary.value = std::move(value);
  summary.count = static_cast<std::int64_t>(rows.size());
  for (const LayerMetric metric : kAll) {
    std::vector<double> errors;
    double worst = 0;
    for (const LayerRow* row : rows) {
      errors.push_back(predicted_of(*row->predicted, metric) / measured_of(*row->run, metric) - 1);
      worst = std::max(worst, std::abs(errors.back()));
    }
    const OperatorSummary common = summarize_operators("", "", errors);
    summary.errors.push_back({common.median_absolute, worst, common.mean});
  }
  return summary;
}

void summarize(LayerValidation& result) {
  using Key = std::pair<int, double>;  // order of values: by number, then as they first stand
  std::vector<const LayerRow*> all;
  std::map<Key, std::map<std::string, std::vector<const LayerRow*>>> groups;
  const char* names[] = {"backward", "chunks", "retention", "distribution", "library"};
  for (const LayerRow& row : result.rows) {
    if (!row.predicted) continue;
    all.push_back(&row);
    const LayerRun& run = *row.run;
    groups[{0, 0}][run.backward].push_back(&row);
    if (run.backward == "recompute")
      groups[{1, static_cast<double>(run.chunks)}][std::to_string(run.chunks)].push_back(&row);
    if (run.backward == "redispatch") groups[{2, -run.retention}][fmt::format("{:g}", run.retention)].push_back(&row);
    groups[{3, 0}][run.distribution].push_back(&row);
    groups[{4, 0}][run.library].push_back(&row);
  }
  result.summary.push_back(summarize("total", "", all));
  for (const auto& [key, values] : groups)
    for (const auto& [value, rows] : values) result.summary.push_back(summarize(names[key.first], value, rows));
}

// Least squares of bytes = A + B / chunks.
void fit(const std::vector<std::int64_t>& chunks, ChunkCurve::Side& side) {
  const auto n = static_cast<double>(chunks.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const double inverse = 1 / static_cast<double>(chunks[i]);
    x += inverse / n;
    y += side.bytes[i] / n;
    xx += inverse * inverse / n;
    xy += inverse * side.bytes[i] / n;
  }
  side.divided_bytes = (xy - x * y) / (xx - x * x);
  side.fixed_bytes = y - side.divided_bytes * x;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const double form = side.fixed_bytes + side.divided_bytes / static_cast<double>(chunks[i]);
    side.worst_residual = std::max(side.worst_residual, std::abs(form / side.bytes[i] - 1));
  }
}

void draw_curves(LayerValidation& result) {
  std::map<std::string, std::map<std::int64_t, const LayerRow*>> groups;  // the first run of a chunk count
  std::vector<std::string> order;
  for (const LayerRow& row : result.rows) {
    if (!row.predicted || row.run->backward != "recompute") continue;
    const LayerRun& r = *row.run;
    const std::string key =
        fmt::format("{}|{}|{}|{}|{}|{}|{}", r.tokens, r.hidden, r.ffn, r.experts, r.top_k, r.distribution, r.library);
    if (groups.find(key) == groups.end()) order.push_back(key);
    groups[key].emplace(r.chunks, &row);
  }
  for (const std::string& key : order) {
    const auto& runs = groups[key];
    if (runs.size() < 3) continue;  // two points lie on any such curve
    const LayerRun& r = *runs.begin()->second->run;
    ChunkCurve curve;
    curve.distribution = r.distribution;
    curve.library = r.library;
    curve.tokens = r.tokens;
    curve.hidden = r.hidden;
    curve.ffn = r.ffn;
    curve.experts = r.experts;
    curve.top_k = r.top_k;
    for (const auto& [chunks, row] : runs) {
      curve.chunks.push_back(chunks);
      curve.measured.bytes.push_back(
          static_cast<double>(std::max(row->run->forward_peak_bytes, row->run->backward_peak_bytes)));
      curve.predicted.bytes.push_back(static_cast<double>(row->predicted->peak_bytes()));
      curve.measured.step_s.push_back(row->run->forward_s + row->run->backward_s);
      curve.predicted.step_s.push_back(row->predicted->step_s());
    }
    fit(curve.chunks, curve.measured);
    fit(curve.chunks, curve.predicted);
    result.curves.push_back(std::move(curve));
  }
}

}  // namespace

const char* layer_metric_name(LayerMetric metric) {
  constexpr const char* kNames[kLayerMetrics] = {"forward time", "backward time", "step time",
                                                 "forward peak", "backward peak", "reserved"};
  return kNames[static_cast<std::size_t>(metric)];
}

double measured_of(const LayerRun& run, LayerMetric metric) {
  switch (metric) {
    case LayerMetric::forward_time:
      return run.forward_s;
    case LayerMetric::backward_time:
      return run.backward_s;
    case LayerMetric::step_time:
      return run.forward_s + run.backward_s;
    case LayerMetric::forward_peak:
      return static_cast<double>(run.forward_peak_bytes);
    case LayerMetric::backward_peak:
      return static_cast<double>(run.backward_peak_bytes);
    case LayerMetric::reserved:
      break;
  }
  return static_cast<double>(run.peak_reserved_bytes);
}

double predicted_of(const LayerPrediction& prediction, LayerMetric metric) {
  switch (metric) {
    case LayerMetric::forward_time:
      return prediction.forward_s;
    case LayerMetric::backward_time:
      return prediction.backward_s;
    case LayerMetric::step_time:
      return prediction.step_s();
    case LayerMetric::forward_peak:
      return static_cast<double>(prediction.forward_peak_bytes);
    case LayerMetric::backward_peak:
      return static_cast<double>(prediction.backward_peak_bytes);
    case LayerMetric::reserved:
      break;
  }
  return static_cast<double>(prediction.peak_reserved_bytes);
}

LayerValidation validate_layers(const measurements::LayerRunFile& file, const measurements::Profiles& profiles,
                                const topology::HardwareProfile* fixed) {
  LayerValidation result;
  result.file = file.file;
  result.faults = file.faults;
  result.left_out = file.left_out;
  for (const LayerRun& run : file.runs) {
    result.rows.push_back(judge(run, profiles, fixed));
    const Status status = result.rows.back().status;
    result.ok += status == Status::ok ? 1 : 0;
    result.skipped += status == Status::skipped ? 1 : 0;
    result.errors += status == Status::error ? 1 : 0;
  }
  summarize(result);
  draw_curves(result);
  return result;
}

}  // namespace moeplan::search
