#include "search/uncertainty.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "search/evaluate.h"
#include "search/in_order.h"

namespace moeplan::search {

namespace {

using topology::HardwareProfile;

struct Family {
  const char* name;
  double HardwareProfile::TimeScale::*scale;
  double untested;  // spread where the profile states none
};

// An untested profile is taken to be about as wrong as the worst of the shipped ones that were compared with
// measurements, for each cost model.
constexpr std::array<Family, 7> kFamilies = {{
    {"gemm", &HardwareProfile::TimeScale::gemm, 0.25},
    {"grouped_gemm", &HardwareProfile::TimeScale::grouped_gemm, 0.30},
    {"attention", &HardwareProfile::TimeScale::attention, 0.60},
    {"memory_bound", &HardwareProfile::TimeScale::memory_bound, 0.15},
    {"dispatch", &HardwareProfile::TimeScale::dispatch, 0.60},
    {"network", &HardwareProfile::TimeScale::network, 0.30},
    {"host", &HardwareProfile::TimeScale::host, 0.25},
}};

// Shares of the mean rank's time by cost model, of what is neither bubble nor waiting: those stretch with the rest.
std::array<double, kFamilies.size()> shares_of(const engine::TimeParts& parts) {
  const auto of = [&](plan::Family family) { return parts.family_s[static_cast<std::size_t>(family)]; };
  // Recomputation runs what forward ran.
  const double forward = of(plan::Family::attention) + of(plan::Family::expert) + of(plan::Family::dense) +
                         of(plan::Family::router_permute);
  const double again = 1 + (forward > 0 ? parts.recompute_s / forward : 0);
  std::array<double, kFamilies.size()> seconds = {
      again * of(plan::Family::dense),
      again * of(plan::Family::expert),
      again * of(plan::Family::attention),
      again * of(plan::Family::router_permute) + of(plan::Family::loss) + of(plan::Family::optimizer),
      0,
      parts.exposed_ep_s + parts.exposed_tp_s + parts.exposed_pp_s + parts.exposed_dp_s + parts.exposed_offload_s,
      parts.host_s};
  double sum = 0;
  for (const double s : seconds) sum += s;
  if (sum > 0)
    for (double& s : seconds) s /= sum;
  return seconds;
}

}  // namespace

FormError form_of(std::vector<double> scores) {
  if (scores.empty()) return {};
  std::sort(scores.begin(), scores.end());
  const auto count = static_cast<double>(scores.size());
  // Ranks count from 1; between two of them lies what lies between their scores.
  const auto at = [&](double rank) {
    const double below = std::floor(std::clamp(rank, 1.0, count)), part = std::clamp(rank, 1.0, count) - below;
    const auto index = static_cast<std::size_t>(below) - 1;
    return part > 0 ? std::lerp(scores[index], scores[index + 1], part) : scores[index];
  };
  const double beyond = (count + 1) / kTail;
  return {at(beyond), at(count + 1 - beyond)};
}

Range range_of(double predicted, double deviation, const FormError& form, double least) {
  return {predicted * std::exp(deviation * std::min(-least, form.low)),
          predicted * std::exp(deviation * std::max(least, form.high))};
}

std::vector<FamilyError> spreads_of(const HardwareProfile& profile) {
  std::vector<FamilyError> result;
  for (const Family& family : kFamilies) {
    FamilyError error;
    error.family = family.name;
    if (const topology::Value* stated = topology::value_at(profile, error.family + ".spread")) {
      error.spread = stated->value;
      error.evidence = stated->evidence;
      error.source = stated->source;
    } else {
      error.spread = family.untested;
      error.source = "not compared with measurements: as the worst of the profiles that were";
    }
    result.push_back(std::move(error));
  }
  return result;
}

Uncertainty uncertainty(const Evaluation& evaluation, int threads) {
  Uncertainty result;
  const std::vector<FamilyError> spreads = spreads_of(evaluation.scenario->hardware);
  result.rerun = evaluation.ops / evaluation.iterations <= kMostRerunOps;
  MOEPLAN_CHECK(!result.rerun || evaluation.plan, "uncertainty by re-evaluation needs the plan");
  result.families.resize(spreads.size());
  const auto shares = shares_of(evaluation.mean);
  rows_in_order(
      result.families, threads,
      [&](std::size_t i) {
        FamilyError error = spreads[i];
        if (result.rerun) {
          const double longer_s = step_under(*evaluation.plan, [&](HardwareProfile& profile) {
            profile.time_scale.*(kFamilies[i].scale) *= 1 + error.spread;
          });
          error.step_change = std::log(longer_s / evaluation.step_s);
        } else {
          error.step_change = std::log1p(error.spread * shares[i]);
        }
        return error;
      },
      [](const FamilyError&) {});
  std::erase_if(result.families, [](const FamilyError& error) { return error.step_change == 0; });
  std::stable_sort(result.families.begin(), result.families.end(), [](const FamilyError& a, const FamilyError& b) {
    return std::abs(a.step_change) > std::abs(b.step_change);
  });
  double variance = 0;
  for (const FamilyError& error : result.families) variance += error.step_change * error.step_change;
  result.deviation = std::sqrt(variance);
  result.step_s = range_of(evaluation.step_s, result.deviation, step_form(), kDeviations);
  result.peak_allocated_bytes =
      range_of(static_cast<double>(evaluation.worst.peak.allocated_bytes), 1, memory_form(), 0);
  return result;
}

}  // namespace moeplan::search
