#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "routing/formats.h"

namespace moeplan::routing {
namespace {

constexpr std::array kFormats = {
    TraceFormat{"esft", "a folder with expert_weights_<layer>.txt[.zst]: ids and weights of each token", is_esft_folder,
                read_esft},
    TraceFormat{"counts-csv", "a file .csv[.zst] with the header step,layer[,microbatch][,source],e0,e1,...",
                is_counts_csv, read_counts_csv},
};

}  // namespace

std::span<const TraceFormat> trace_formats() { return kFormats; }

bool has_suffix(const std::string& path, std::string_view suffix) {
  constexpr std::string_view kCompressed = ".zst";
  std::string_view rest = path;
  if (rest.ends_with(kCompressed)) rest.remove_suffix(kCompressed.size());
  return rest.ends_with(suffix);
}

Trace read_trace(const std::string& path, std::int64_t top_k_hint) {
  std::error_code failed;
  if (path.empty() || !std::filesystem::exists(path, failed)) {
    throw base::Error({path, 0, 0, {}}, path.empty() ? "the path of the trace is empty" : "no such file or folder");
  }
  const std::span<const TraceFormat> formats = trace_formats();
  const auto format = std::find_if(formats.begin(), formats.end(), [&](const auto& f) { return f.detect(path); });
  if (format != formats.end()) return format->read(path, top_k_hint);
  std::string expected;
  for (const TraceFormat& f : formats) {
    expected += (expected.empty() ? "" : "; or ") + std::string(f.description);
  }
  const bool folder = std::filesystem::is_directory(path, failed);
  throw base::Error({path, 0, 0, {}}, folder ? "the folder holds no trace files" : "not a known trace format",
                    "expected " + expected);
}

}  // namespace moeplan::routing
