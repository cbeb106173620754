#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "routing/count_table.h"

// What a routing trace file says, as plain data; readers fill it, loads.h turns it into the loads of a step.
namespace moeplan::routing {

// Per-token choices. All layers hold the same tokens in the same order, cut into lines (sequences).
struct TokenTrace {
  std::string name;          // path as the user wrote it
  std::int64_t experts = 0;  // as far as known: largest id + 1, or what the format states
  bool experts_stated = false;
  std::int64_t top_k = 0;
  std::vector<int> layer_ids;                          // global layer of each entry below
  std::vector<std::int64_t> line_tokens;               // tokens of each line
  std::vector<std::vector<std::uint16_t>> experts_of;  // [layer][token * top_k + slot]
  std::vector<std::vector<float>> weights_of;          // same shape; empty when the format carries no router weights
  std::int64_t left_out = 0;  // tokens of the file that carry no route; they are in none of the fields above
  std::int64_t tokens() const;
};

// Counts per expert. One row is what one (step, layer, microbatch, source) received from its source side; microbatch or
// source -1 means "all".
struct CountTrace {
  std::string name;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;  // 0: the format does not state it
  struct Row {
    std::int64_t step = 0, layer = 0, microbatch = -1, source = -1;
    std::int64_t line = 0;  // in the file, for messages; 0: the format has no lines
  };
  std::vector<Row> rows;
  CountTable counts;  // [row * experts + e]
  std::vector<std::int64_t> row_counts(std::size_t row) const;
};

using Trace = std::variant<TokenTrace, CountTrace>;

// The layers that a trace has, ascending.
std::vector<std::int64_t> trace_layers(const Trace& trace);

// "FILE#PART": one trace out of a file that holds several. A path that exists as it stands has no part.
struct TracePath {
  std::string file, part;
  std::string text() const { return part.empty() ? file : file + "#" + part; }
};
TracePath split_trace_path(const std::string& path);

// Reads a file or a folder of one trace, each file also with ".zst":
//  - a folder with expert_weights_<layer>.txt: one line a sequence, ids<TAB>...<TAB><TAB>weights<TAB>..., k ids a token
//  (ESFT);
//    k is taken from `top_k_hint` when > 0, else inferred: the largest k in 1..16 that divides every line and gives
//    distinct ids per token. Refused with file and line: a count of ids that is no multiple of k, ids and weights of
//    different lengths, an id that is no number, a token with a repeated expert, a weight that is negative or not
//    finite, layers with different tokens, a gap in the layers, a cut last line.
//  - a .csv file: header step,layer[,microbatch][,source],e0,e1,...; counts are integers >= 0. Refused: negative, NaN,
//  fractions, missing columns,
//    rows of another width, duplicate (step, layer, microbatch, source), a row that sums to 0, no rows.
//  - a .jsonl file: the same rows as objects {"step":, "layer":, "microbatch":, "source":, "counts": [...]}.
//  - a .npy or .npz file: choices [tokens, layers, k] or counts [.., layers, experts] (array_trace.h).
//  - a .json file: counts by layer as OLMoE published them (with #MODEL/DOMAIN), or a sample of gpt-oss routing.
// All faults of a file (up to 20) are reported at once. docs/traces.md describes the formats.
Trace read_trace(const std::string& path, std::int64_t top_k_hint = 0);

}  // namespace moeplan::routing
