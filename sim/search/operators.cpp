#include "search/operators.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/nearest.h"
#include "measurements/device_lines.h"
#include "measurements/predict.h"

namespace moeplan::search {
namespace {

using measurements::Family;
using measurements::Measurement;
using measurements::Status;

OperatorRow judge(const Measurement& row, const measurements::Profiles& profiles,
                  const topology::HardwareProfile* fixed) {
  OperatorRow result;
  result.measurement = &row;
  result.status = row.status;
  result.reason = row.reason;
  if (result.status != Status::ok) return result;
  const topology::HardwareProfile* profile = fixed != nullptr ? fixed : profiles.find(row.gpu);
  if (profile == nullptr) {
    const std::string hint = base::nearest_hint(row.gpu, profiles.names());
    result.status = Status::skipped;
    result.reason =
        fmt::format("no profile is called '{}'{}", base::shown_cell(row.gpu), hint.empty() ? "" : " (" + hint + ")");
    return result;
  }
  result.profile = profile->id;
  if (fixed == nullptr && row.family == Family::collective && row.shape.nodes > 1 && !row.nic_bandwidth &&
      row.shape.ranks > profile->network.domain_gpus()) {  // a part's NICs are the cluster's, not the part's
    result.status = Status::skipped;
    result.reason = "nic_GBps_per_gpu is not stated; --hardware ID takes the profile's";
    return result;
  }
  measurements::Prediction prediction = measurements::predict(row, *profile);
  if (!prediction.seconds) {
    result.status = Status::skipped;
    result.reason = std::move(prediction.reason);
    return result;
  }
  result.predicted = prediction.seconds;
  result.evidence = prediction.evidence;
  result.basis = prediction.basis;
  result.weakest_key = std::move(prediction.weakest_key);
  return result;
}

// The value of sorted numbers at a share of their way.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(at));
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

std::string type_of(const Measurement& row) {
  if (row.family == Family::collective || row.family == Family::memory) return "";
  return cost::precision_name(row.precision);
}

std::string kind_of(const Measurement& row) {
  const std::string name = measurements::family_name(row.family);
  switch (row.family) {
    case Family::gemm:
    case Family::grouped_gemm:
      return name + (row.pass == cost::GemmPass::forward ? " forward"
                     : row.pass == cost::GemmPass::dgrad ? " dgrad"
                                                         : " wgrad");
    case Family::attention:
      return name + (row.backward ? " backward" : " forward");
    case Family::dispatch:
      return row.backward ? "combine" : "dispatch";
    case Family::moe_layer:
      return name + " forward";
    case Family::collective:
    case Family::memory:
      return row.kind;
  }
  return name;
}

void summarize(OperatorValidation& result) {
  // In the order of these names; values of one in the order of their text.
  const std::vector<std::pair<std::string, std::function<std::string(const Measurement&)>>> groups = {
      {"gpu", [](const Measurement& row) { return row.gpu; }},
      {"dtype", type_of},
      {"kind", kind_of},
      {"size", size_class},
      {"library", [](const Measurement& row) { return row.library; }}};
  std::vector<double> all;
  std::vector<std::map<std::string, std::vector<double>>> errors(groups.size());
  for (const OperatorRow& row : result.rows) {
    const std::optional<double> error = row.error();
    if (!error) continue;
    all.push_back(*error);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::string value = groups[g].second(*row.measurement);
      if (!value.empty()) errors[g][value].push_back(*error);
    }
  }
  result.summary.push_back(summarize_operators("total", "", all));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const auto& [value, list] : errors[g]) {
      result.summary.push_back(summarize_operators(groups[g].first, value, list));
    }
  }
}

}  // namespace

std::optional<double> OperatorRow::error() const {
  if (status != Status::ok || !predicted || !(measurement->seconds > 0)) return std::nullopt;
  return *predicted / measurement->seconds - 1;
}

std::string OperatorRow::comes_from() const {
  return basis == cost::Basis::model ? topology::evidence_name(evidence) : cost::basis_name(basis);
}

std::string size_class(const Measurement& row) {
  const double flop = measurements::flop_of(row);
  if (flop <= 0) return "";
  const char* size = flop >= 1e11 ? ">= 1e11 FLOP" : flop >= 1e10 ? "1e10 to 1e11 FLOP" : "< 1e10 FLOP";
  return fmt::format("{} {} {}", type_of(row), measurements::family_name(row.family), size);
}

OperatorSummary summarize_operators(std::string by, std::string value, const std::vector<double>& errors) {
  OperatorSummary summary;
  summary.by = std::move(by);
  summary.value = std::move(value);
  summary.count = static_cast<std::int64_t>(errors.size());
  if (errors.empty()) return summary;
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    summary.mean += error;
    summary.over += error > 0 ? 1 : 0;
    summary.under += error < 0 ? 1 : 0;
  }
  summary.mean /= static_cast<double>(errors.size());
  std::sort(sizes.begin(), sizes.end());
  summary.median_absolute = quantile(sizes, 0.5);
  summary.p90_absolute = quantile(sizes, 0.9);
  return summary;
}

OperatorValidation validate_operators(const measurements::MeasurementTable& table,
                                      const measurements::Profiles& profiles, const topology::HardwareProfile* fixed) {
  OperatorValidation result;
  result.file = table.file;
  result.notes = table.notes;
  if (table.device != nullptr) {
    for (const base::Fault& fault : table.device->set_aside)
      result.notes.push_back("set aside: " + base::format_fault(fault));
  }
  for (const Measurement& row : table.rows) {
    result.rows.push_back(judge(row, profiles, fixed));
    const Status status = result.rows.back().status;
    result.ok += status == Status::ok ? 1 : 0;
    result.skipped += status == Status::skipped ? 1 : 0;
    result.errors += status == Status::error ? 1 : 0;
  }
  summarize(result);
  return result;
}

}  // namespace moeplan::search
