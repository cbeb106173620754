#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "routing/esft_top_k.h"
#include "routing/formats.h"

namespace moeplan::routing {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "expert_weights_";

// "7" of "expert_weights_7.txt.zst"; nothing for other names.
std::optional<std::string> layer_text(const std::string& name) {
  if (!name.starts_with(kPrefix) || !has_suffix(name, ".txt")) return std::nullopt;
  return name.substr(kPrefix.size(), name.rfind(".txt") - kPrefix.size());
}

std::optional<int> layer_number(const std::string& text) {
  int layer = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, layer);
  if (failed != std::errc{} || stop != end || layer < 0) return std::nullopt;
  return layer;
}

struct LayerFile {
  int layer = 0;
  std::string path;
};

// The files of the folder, ascending by layer, one a layer and without a gap.
std::vector<LayerFile> layer_files(const std::string& folder) {
  std::error_code failed;
  std::vector<LayerFile> files;
  base::Faults faults;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const std::optional<std::string> text = layer_text(name);
    if (!text) continue;
    const std::string path = (fs::path(folder) / name).string();
    const std::optional<int> layer = layer_number(*text);
    if (layer) {
      files.push_back({*layer, path});
    } else {
      faults.add({path, 0, 0, {}}, fmt::format("expected the number of a layer in the file name, got '{}'", *text));
    }
  }
  if (failed) throw base::Error({folder, 0, 0, {}}, "cannot list the folder: " + failed.message());
  std::sort(files.begin(), files.end(), [](const LayerFile& a, const LayerFile& b) {
    return a.layer != b.layer ? a.layer < b.layer : a.path < b.path;
  });
  for (std::size_t i = 1; i < files.size(); ++i) {
    const int before = files[i - 1].layer, here = files[i].layer;
    if (here == before) {
      faults.add({files[i].path, 0, 0, {}}, fmt::format("layer {} has a second file", here), "keep one of them",
                 {{files[i - 1].path, 0, 0, {}}});
    } else if (here != before + 1) {
      const std::string missing = (fs::path(folder) / fmt::format("{}{}.txt", kPrefix, before + 1)).string();
      faults.add({missing, 0, 0, {}}, fmt::format("missing: the folder has layers {} to {}, but none between {} and {}",
                                                  files.front().layer, files.back().layer, before, here));
    }
  }
  faults.throw_if_any();
  return files;
}

// "90 tokens" of a line as far as known, for the comparison of layers.
void add_line_faults(std::span<const EsftLayer> layers, std::int64_t top_k, base::Faults& faults) {
  const EsftLayer& first = layers.front();
  for (const EsftLayer& layer : layers.subspan(1)) {
    if (layer.line_ids.size() != first.line_ids.size()) {
      faults.add({layer.file, 0, 0, {}},
                 fmt::format("{} lines, but layer {} has {}: all layers must hold the same tokens",
                             layer.line_ids.size(), first.layer, first.line_ids.size()),
                 {}, {{first.file, 0, 0, {}}});
      continue;
    }
    for (std::size_t line = 0; line < layer.line_ids.size(); ++line) {
      const std::int64_t here = layer.line_ids[line], there = first.line_ids[line];
      if (here < 0 || there < 0 || here == there) continue;
      const int number = static_cast<int>(line) + 1;
      faults.add({layer.file, number, 0, {}},
                 fmt::format("{} ids of {} a token, but layer {} has {}: all layers must hold the same tokens", here,
                             top_k, first.layer, there),
                 {}, {{first.file, number, 0, {}}});
      break;  // later lines are often shifted by the same damage
    }
  }
}

}  // namespace

bool is_esft_folder(const std::string& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return false;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (layer_text(entry->path().filename().string())) return true;
  }
  return false;
}

TokenTrace combine_esft(std::vector<EsftLayer> layers, const std::string& name, std::int64_t top_k_hint) {
  base::Faults faults;
  if (layers.empty()) throw base::Error({name, 0, 0, {}}, "the trace has no layers");
  for (const EsftLayer& layer : layers) {
    for (const base::Fault& fault : layer.faults) faults.add(fault.where, fault.message, fault.hint, fault.also);
  }
  const std::int64_t top_k = top_k_hint > 0 ? top_k_hint : infer_esft_top_k(layers);
  add_esft_top_k_faults(layers, top_k, faults);
  add_line_faults(layers, top_k, faults);
  throw_first(faults);

  TokenTrace trace;
  trace.name = name;
  trace.top_k = top_k;
  for (const std::int64_t ids : layers.front().line_ids) trace.line_tokens.push_back(ids / top_k);
  int largest = 0;
  for (EsftLayer& layer : layers) {
    largest = std::max<int>(largest, *std::max_element(layer.ids.begin(), layer.ids.end()));
    trace.layer_ids.push_back(layer.layer);
    trace.experts_of.push_back(std::move(layer.ids));
    trace.weights_of.push_back(std::move(layer.weights));
  }
  trace.experts = largest + 1;
  return trace;
}

Trace read_esft(const TracePath& path, std::int64_t top_k_hint) {
  std::vector<EsftLayer> layers;
  base::Faults faults;
  for (const LayerFile& file : layer_files(path.file)) {
    try {
      layers.push_back(parse_esft_layer(base::read_text(file.path), file.path, file.layer));
    } catch (const base::Error& error) {  // unreadable, truncated, not UTF-8: the other files are looked at too
      faults.add(error);
    }
  }
  throw_first(faults);
  return combine_esft(std::move(layers), path.file, top_k_hint);
}

}  // namespace moeplan::routing
