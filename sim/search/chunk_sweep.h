#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "search/evaluate.h"

// `moeplan chunks`: MemFine over chunk counts, the adaptive rule, and a recommendation.
namespace moeplan::search {

struct ChunkPoint {
  std::string rule;         // "none" (the scenario without MemFine), "fixed", "adaptive"
  std::int64_t chunks = 0;  // fixed: the count; adaptive: the largest that was chosen; none: 0
  Evaluation evaluation;
};

struct ChunkSweep {
  std::vector<ChunkPoint> curve;  // none, the fixed counts ascending, adaptive
  // Adaptive rule: how often each chunk count was chosen, over layers, microbatches and iterations, by layer.
  struct Chosen {
    int layer = 0;
    std::map<std::int64_t, std::int64_t> times;  // chunk count -> (microbatch, EP group) pairs
  };
  std::vector<Chosen> chosen;
  struct Recommendation {
    std::string rule;
    std::int64_t chunks = 0;
    std::vector<std::int64_t> bins;  // of the adaptive rule, else empty
    std::string reason;              // one or two sentences with the numbers
    bool fits = false;
  } recommendation;
};

// counts: ascending, distinct, >= 1. The scenario's own MemFine settings (bins, alpha, recompute, ...) are used,
// defaults else.
ChunkSweep sweep_chunks(const scenario::Scenario& scenario, const std::vector<std::int64_t>& counts, int threads = 0);

// The fastest point that fits with at least 5 % headroom, else the fastest that fits, else the one with the lowest peak
// (fits = false). Ties in time (within 0.1 %): lower peak.
ChunkSweep::Recommendation recommend(const std::vector<ChunkPoint>& curve, const policy::MemfineSettings& settings);

}  // namespace moeplan::search
