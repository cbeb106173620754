#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "routing/count_rows.h"
#include "routing/formats.h"
#include "routing/json_text.h"
#include "routing/json_trace.h"

namespace moeplan::routing {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostLayers = 4096;

// "token_150" -> 150; nothing for other keys.
std::optional<std::int64_t> number_after(std::string_view key, std::string_view prefix) {
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (failed != std::errc{} || end != key.data() + key.size() || number < 0 || number > kLargestSum)
    return std::nullopt;
  return number;
}

class SampleReader {
 public:
  SampleReader(const Json& document, const TracePath& path) : document_(document), path_(path) {}

  TokenTrace read() {
    if (!path_.part.empty()) throw base::Error(at({}), "this format has no parts, got '#" + path_.part + "'");
    const Json& tokens = document_.at("router_data");
    if (!tokens.is_array() || tokens.empty()) throw base::Error(at("router_data"), "expected a list of tokens");
    trace_.name = path_.file;
    for (std::size_t i = 0; i < tokens.size() && faults_.size() < kMostFaults; ++i) token(tokens[i], i);
    throw_first(faults_);
    trace_.line_tokens = {static_cast<std::int64_t>(tokens.size())};
    trace_.experts = largest_ + 1;
    return std::move(trace_);
  }

 private:
  base::Where at(std::string key) const { return {path_.file, 0, 0, std::move(key)}; }

  void token(const Json& entry, std::size_t i) {
    const std::string place = fmt::format("router_data[{}]", i);
    if (!entry.is_object() || entry.size() != 1 || !entry.begin()->is_object()) {
      return faults_.add(at(place), "expected an object with one key, token_<number>");
    }
    const std::string& key = entry.begin().key();
    const std::optional<std::int64_t> number = number_after(key, "token_");
    if (!number) return faults_.add(at(place), "expected the key token_<number>, got " + shown(Json(key)));
    if (i > 0 && *number != last_ + 1) {
      faults_.add(at(place),
                  fmt::format("expected token_{}, the one after the token before, got '{}'", last_ + 1, key));
    }
    last_ = *number;
    layers(*entry.begin(), place + "." + key);
  }

  // The first token says which layers there are and how many experts a token has.
  void layers(const Json& entry, const std::string& place) {
    if (trace_.layer_ids.empty() && !first_token(entry, place)) return;
    if (entry.size() != trace_.layer_ids.size()) {
      return faults_.add(at(place),
                         fmt::format("{} layers, but the first token has {}", entry.size(), trace_.layer_ids.size()));
    }
    for (std::size_t l = 0; l < trace_.layer_ids.size(); ++l) {
      const std::string key = fmt::format("layer_{}", trace_.layer_ids[l]);
      const auto found = entry.find(key);
      if (found == entry.end()) return faults_.add(at(place), "missing key '" + key + "', which the first token has");
      choices(*found, place + "." + key, l);
    }
  }

  // Takes the layers over only when all of them are right: later tokens are measured by them.
  bool first_token(const Json& entry, const std::string& place) {
    std::vector<int> ids;
    for (const auto& [key, value] : entry.items()) {
      const std::optional<std::int64_t> layer = number_after(key, "layer_");
      if (!layer || *layer >= kMostLayers || key != fmt::format("layer_{}", *layer)) {
        faults_.add(at(place), "expected keys layer_<number>, got " + shown(Json(key)));
        return false;
      }
      ids.push_back(static_cast<int>(*layer));
    }
    if (ids.empty()) {
      faults_.add(at(place), "the token has no layers");
      return false;
    }
    std::sort(ids.begin(), ids.end());
    trace_.layer_ids = std::move(ids);
    trace_.experts_of.resize(trace_.layer_ids.size());
    trace_.weights_of.resize(trace_.layer_ids.size());
    return true;
  }

  void choices(const Json& entry, const std::string& place, std::size_t layer) {
    const auto ids = entry.is_object() ? entry.find("selected_experts") : entry.end();
    const auto weights = entry.is_object() ? entry.find("selected_probs") : entry.end();
    if (ids == entry.end() || weights == entry.end() || !ids->is_array() || !weights->is_array() ||
        ids->size() != weights->size()) {
      return faults_.add(at(place), "expected selected_experts and selected_probs, two lists of one length");
    }
    const auto size = static_cast<std::int64_t>(ids->size());
    if (trace_.top_k == 0 && size >= 1 && size <= kMostTopK) trace_.top_k = size;
    if (size != trace_.top_k || size == 0) {
      return faults_.add(at(place), fmt::format("{} experts, expected {}", size,
                                                trace_.top_k > 0 ? fmt::format("{} as in the first token", trace_.top_k)
                                                                 : "from 1 to 64"));
    }
    std::vector<std::uint16_t>& out = trace_.experts_of[layer];
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    for (std::size_t k = 0; k < ids->size(); ++k) {
      const std::optional<std::int64_t> id = whole_number((*ids)[k]);
      if (!id || *id < 0 || *id >= static_cast<std::int64_t>(kMostExperts)) {
        return faults_.add(at(place), "expected ids of experts from 0 to 65534, got " + shown((*ids)[k]));
      }
      const auto expert = static_cast<std::uint16_t>(*id);
      if (std::find(out.begin() + first, out.end(), expert) != out.end()) {
        return faults_.add(at(place), fmt::format("the token names expert {} twice", *id));
      }
      const Json& stated = (*weights)[k];
      const double weight = stated.is_number() ? stated.get<double>() : -1.0;
      if (!(weight >= 0.0) || weight > static_cast<double>(std::numeric_limits<float>::max())) {
        return faults_.add(at(place), "expected finite weights >= 0, got " + shown(stated));
      }
      largest_ = std::max(largest_, *id);
      out.push_back(expert);
      trace_.weights_of[layer].push_back(static_cast<float>(weight));
    }
  }

  const Json& document_;
  TracePath path_;
  std::int64_t last_ = 0, largest_ = 0;
  TokenTrace trace_;
  base::Faults faults_;
};

}  // namespace

TokenTrace gptoss_sample(const Json& document, const TracePath& path) { return SampleReader(document, path).read(); }

}  // namespace moeplan::routing
