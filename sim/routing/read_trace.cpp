#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "routing/formats.h"

namespace moeplan::routing {
namespace {

constexpr std::array kFormats = {
    TraceFormat{"esft", "a folder with expert_weights_<layer>.txt[.zst]: ids and weights of each token", is_esft_folder,
                false, read_esft},
    TraceFormat{"counts-csv", "a file .csv[.zst] with the header step,layer[,microbatch][,source],e0,e1,...",
                is_counts_csv, false, read_counts_csv},
    TraceFormat{"counts-jsonl",
                "a file .jsonl[.zst] with a line {\"step\":, \"layer\":, \"microbatch\":, \"source\":, \"counts\": "
                "[...]} a row",
                is_counts_jsonl, false, read_counts_jsonl},
    TraceFormat{"npy", "an array .npy[.zst] of choices [tokens, layers, k] or of counts [.., layers, experts]", is_npy,
                true, read_npy},
    TraceFormat{"npz", "arrays .npz[.zst] with routed_experts, counts or expert_counts", is_npz, true, read_npz},
    TraceFormat{"json", "a file .json[.zst] of OLMoE expert counts (FILE#MODEL/DOMAIN) or of gpt-oss router data",
                is_json, true, read_json},
};

}  // namespace

std::span<const TraceFormat> trace_formats() { return kFormats; }

void throw_first(const base::Faults& faults) {
  try {
    faults.throw_if_any();
  } catch (const base::Error& error) {
    std::vector<base::Fault> first = error.faults();
    if (first.size() > kMostFaults) first.resize(kMostFaults);
    throw base::Error(std::move(first));
  }
}

bool has_suffix(const std::string& path, std::string_view suffix) {
  constexpr std::string_view kCompressed = ".zst";
  std::string_view rest = path;
  if (rest.ends_with(kCompressed)) rest.remove_suffix(kCompressed.size());
  return rest.ends_with(suffix);
}

bool is_file_with_suffix(const std::string& path, std::string_view suffix) {
  std::error_code failed;
  return has_suffix(path, suffix) && !std::filesystem::is_directory(path, failed);
}

Trace read_trace(const std::string& path, std::int64_t top_k_hint) {
  const TracePath parts = split_trace_path(path);
  std::error_code failed;
  if (parts.file.empty() || !std::filesystem::exists(parts.file, failed)) {
    throw base::Error({path, 0, 0, {}}, path.empty() ? "the path of the trace is empty" : "no such file or folder");
  }
  const std::span<const TraceFormat> formats = trace_formats();
  const auto format = std::find_if(formats.begin(), formats.end(), [&](const auto& f) { return f.detect(parts.file); });
  if (format != formats.end()) {
    if (!parts.part.empty() && !format->has_parts) {
      throw base::Error({path, 0, 0, {}}, "this format has no parts, got '#" + parts.part + "'");
    }
    return format->read(parts, top_k_hint);
  }
  std::string expected;
  for (const TraceFormat& f : formats) {
    expected += (expected.empty() ? "" : "; or ") + std::string(f.description);
  }
  const bool folder = std::filesystem::is_directory(parts.file, failed);
  throw base::Error({path, 0, 0, {}}, folder ? "the folder holds no trace files" : "not a known trace format",
                    "expected " + expected);
}

}  // namespace moeplan::routing
