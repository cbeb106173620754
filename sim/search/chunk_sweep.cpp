#include "search/chunk_sweep.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"

namespace moeplan::search {

namespace {

Evaluation with_memfine(const scenario::Scenario& scenario, const policy::MemfineSettings& settings, int threads) {
  auto variant = std::make_shared<scenario::Scenario>(scenario);
  variant->policies.memfine = settings;
  if (settings.recompute == policy::MemfineSettings::Recompute::layer)
    variant->recompute.granularity = scenario::RecomputeGranularity::full;
  return evaluate(variant, threads);
}

std::string point_name(const ChunkPoint& point) {
  if (point.rule == "none") return "no chunking";
  if (point.rule == "adaptive") return "the adaptive rule";
  return fmt::format("{} chunk{}", point.chunks, point.chunks == 1 ? "" : "s");
}

std::int64_t peak(const ChunkPoint& point) { return point.evaluation.fit.device_bytes; }

// Faster by more than 0.1 %, or as fast with a lower peak.
bool better(const ChunkPoint& a, const ChunkPoint& b) {
  const double time_a = a.evaluation.step_s, time_b = b.evaluation.step_s;
  if (time_a < time_b * 0.999) return true;
  if (time_b < time_a * 0.999) return false;
  return peak(a) < peak(b);
}

}  // namespace

ChunkSweep sweep_chunks(const scenario::Scenario& scenario, const std::vector<std::int64_t>& counts, int threads) {
  ChunkSweep sweep;
  policy::MemfineSettings settings = scenario.policies.memfine.value_or(policy::MemfineSettings{});
  auto plain = std::make_shared<scenario::Scenario>(scenario);
  plain->policies.memfine.reset();
  sweep.curve.push_back({"none", 0, evaluate(plain, threads)});
  settings.rule = policy::MemfineSettings::Rule::fixed;
  for (std::int64_t count : counts) {
    settings.chunks = count;
    sweep.curve.push_back({"fixed", count, with_memfine(scenario, settings, threads)});
  }
  settings.rule = policy::MemfineSettings::Rule::adaptive;
  ChunkPoint adaptive{"adaptive", 0, with_memfine(scenario, settings, threads)};
  for (const LayerRouting& layer : adaptive.evaluation.routing.layers) {
    ChunkSweep::Chosen chosen;
    chosen.layer = layer.layer;
    chosen.times = layer.decisions_by_chunks;
    if (!chosen.times.empty()) adaptive.chunks = std::max(adaptive.chunks, chosen.times.rbegin()->first);
    sweep.chosen.push_back(std::move(chosen));
  }
  sweep.curve.push_back(std::move(adaptive));
  sweep.recommendation = recommend(sweep.curve, settings);
  return sweep;
}

ChunkSweep::Recommendation recommend(const std::vector<ChunkPoint>& curve, const policy::MemfineSettings& settings) {
  const ChunkPoint* best = nullptr;
  std::string why;
  for (const Verdict at_least : {Verdict::fits, Verdict::tight}) {
    for (const ChunkPoint& point : curve) {
      const Verdict verdict = point.evaluation.fit.verdict;
      if (verdict == Verdict::oom || (at_least == Verdict::fits && verdict != Verdict::fits)) continue;
      if (best == nullptr || better(point, *best)) best = &point;
    }
    if (best != nullptr) {
      why = at_least == Verdict::fits ? "the fastest that fits with at least 5 % headroom"
                                      : "the fastest that fits, but with less than 5 % headroom";
      break;
    }
  }
  ChunkSweep::Recommendation result;
  result.fits = best != nullptr;
  if (best == nullptr) {
    for (const ChunkPoint& point : curve)
      if (best == nullptr || peak(point) < peak(*best)) best = &point;
    why = "the one with the lowest peak, but nothing fits";
  }
  result.rule = best->rule;
  result.chunks = best->chunks;
  if (best->rule == "adaptive") result.bins = settings.bins;
  const Fit& fit = best->evaluation.fit;
  result.reason =
      fmt::format("{} is {}: {} of {} usable, {} a step", point_name(*best), why,
                  base::format_gib(static_cast<double>(fit.device_bytes)),
                  base::format_gib(static_cast<double>(fit.usable_bytes)), base::format_time(best->evaluation.step_s));
  const ChunkPoint& plain = curve.front();
  if (best != &plain) {
    result.reason += fmt::format(" (no chunking: {}, {})", base::format_gib(static_cast<double>(peak(plain))),
                                 base::format_time(plain.evaluation.step_s));
  } else {
    const ChunkPoint* lowest = best;
    for (const ChunkPoint& point : curve)
      if (peak(point) < peak(*lowest)) lowest = &point;
    if (lowest != best)
      result.reason += fmt::format("; {} would lower the peak to {} at {} a step", point_name(*lowest),
                                   base::format_gib(static_cast<double>(peak(*lowest))),
                                   base::format_time(lowest->evaluation.step_s));
  }
  return result;
}

}  // namespace moeplan::search
