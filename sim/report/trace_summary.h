#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "routing/trace.h"

// What `moeplan trace info` says of a trace, for text and JSON alike.
namespace moeplan::report {

struct LayerStatistics {
  std::int64_t layer = 0;
  std::int64_t copies = 0;  // (token, expert) pairs; of counts: the sum over steps, microbatches and sources
  double max_over_mean = 0, cv = 0, gini = 0;
  std::int64_t busiest_expert = 0;         // the lowest on ties
  std::vector<double> rank_max_over_mean;  // one for each entry of TraceSummary::ranks
};

struct TraceSummary {
  std::string name, kind;  // kind: "tokens" or "counts"
  std::int64_t experts = 0;
  bool experts_stated = true;                 // false: the largest id + 1
  std::optional<std::int64_t> top_k;          // of counts: where the file states it
  std::optional<std::int64_t> tokens, lines;  // of token traces
  std::optional<std::int64_t> steps;          // of counts
  std::int64_t tokens_without_route = 0;      // of the file, in none of the figures
  bool weights = false;
  std::vector<std::int64_t> ranks;                          // those that divide the experts, ascending, distinct
  std::vector<std::int64_t> left_out;                       // those that do not
  std::vector<LayerStatistics> layers;                      // ascending
  std::vector<std::pair<std::string, std::string>> checks;  // (check, "ok" or what is wrong)
};

TraceSummary summarise(const routing::Trace& trace, const std::vector<std::int64_t>& ranks);

// True when every check of the trace holds.
bool trace_is_sound(const routing::Trace& trace);

}  // namespace moeplan::report
