#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "routing/trace.h"

// The trace formats and their parsers. A new format is one file with two functions and one line in the table.
namespace moeplan::routing {

struct TraceFormat {
  std::string_view name;
  std::string_view description;             // for the message about a path that no format takes
  bool (*detect)(const std::string& file);  // by name and kind of path alone; `file` exists
  bool has_parts;                           // a file may hold several traces: FILE#PART
  Trace (*read)(const TracePath& path, std::int64_t top_k_hint);
};

std::span<const TraceFormat> trace_formats();

// More faults than this in one trace are not told.
inline constexpr std::size_t kMostFaults = 20;
// Throws the first kMostFaults of the faults, in the order of their places; does nothing when there are none.
void throw_first(const base::Faults& faults);

// ESFT folder (read_esft.cpp).
bool is_esft_folder(const std::string& path);
Trace read_esft(const TracePath& path, std::int64_t top_k_hint);

// What one file expert_weights_<layer>.txt holds. Lines that are faulty have ids -1 in line_ids and nothing in ids.
struct EsftLayer {
  int layer = 0;
  std::string file;
  std::vector<std::int64_t> line_ids;  // number of ids of each line
  std::vector<std::uint16_t> ids;
  std::vector<float> weights;
  std::vector<base::Fault> faults;
};
EsftLayer parse_esft_layer(std::string_view text, const std::string& file, int layer);
// `layers` ascending and without gaps. Throws all faults of the layers and those between them.
TokenTrace combine_esft(std::vector<EsftLayer> layers, const std::string& name, std::int64_t top_k_hint);

// Counts as CSV (read_counts_csv.cpp).
bool is_counts_csv(const std::string& path);
Trace read_counts_csv(const TracePath& path, std::int64_t top_k_hint);
CountTrace parse_counts_csv(std::string_view text, const std::string& file);

// Counts as JSON lines (read_counts_jsonl.cpp).
bool is_counts_jsonl(const std::string& path);
Trace read_counts_jsonl(const TracePath& path, std::int64_t top_k_hint);
CountTrace parse_counts_jsonl(std::string_view text, const std::string& file);

// One array (read_npy.cpp). The part says what it is where its shape does not: "counts" or "routed_experts".
bool is_npy(const std::string& path);
Trace read_npy(const TracePath& path, std::int64_t top_k_hint);
Trace parse_npy_trace(std::string_view bytes, const TracePath& path);

// Several named arrays (read_npz.cpp). The part names the one to take where there are counts and choices.
bool is_npz(const std::string& path);
Trace read_npz(const TracePath& path, std::int64_t top_k_hint);
Trace parse_npz_trace(std::string_view bytes, const TracePath& path);

// JSON documents, told apart by their keys (read_json.cpp): counts of OLMoE (olmoe_counts.cpp), samples of gpt-oss
// (gptoss_sample.cpp).
bool is_json(const std::string& path);
Trace read_json(const TracePath& path, std::int64_t top_k_hint);
Trace parse_json_trace(std::string_view text, const TracePath& path);

// `path` ends with `suffix` or with `suffix` and ".zst".
bool has_suffix(const std::string& path, std::string_view suffix);
// ... and is no folder.
bool is_file_with_suffix(const std::string& path, std::string_view suffix);

}  // namespace moeplan::routing
