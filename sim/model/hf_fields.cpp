#include "model/hf_fields.h"

#include <fmt/core.h>

#include <algorithm>

#include "model/layer_pattern.h"

namespace moeplan::model {
namespace {

// Products of two such numbers fit; read_architecture has the narrower ranges.
constexpr config::IntRange kRange{0, std::int64_t{1} << 24};

}  // namespace

bool HfFields::given(std::string_view key) {
  ignore(key);
  return root_.has(key) && root_.at(key).kind() != config::Node::Kind::null;
}

std::int64_t HfFields::integer(std::string_view key) {
  ignore(key);
  // A null is missing too; Reader would say "expected an integer".
  if (root_.has(key) && root_.at(key).kind() == config::Node::Kind::null) {
    fault(key, fmt::format("missing value of '{}'", key));
    return 0;
  }
  return reader_.integer(key, kRange);
}

std::int64_t HfFields::integer_or(std::string_view key, std::int64_t fallback) {
  return given(key) ? reader_.integer_or(key, fallback, kRange) : fallback;
}

std::int64_t HfFields::first_integer(std::string_view key, std::string_view other_key) {
  if (!given(key) && given(other_key)) return integer(other_key);
  ignore(other_key);
  return integer(key);
}

std::int64_t HfFields::step(std::string_view key) {
  const std::int64_t step = integer_or(key, 1);
  if (step == 0) fault(key, "expected an integer >= 1, got '0'");
  return std::max<std::int64_t>(step, 1);
}

double HfFields::real_or(std::string_view key, double fallback) {
  return given(key) ? reader_.real_or(key, fallback, {0.0, 1e6}) : fallback;
}

bool HfFields::flag_or(std::string_view key, bool fallback) {
  return given(key) ? reader_.flag_or(key, fallback) : fallback;
}

std::string HfFields::text_or(std::string_view key, const std::string& fallback) {
  return given(key) ? reader_.text_or(key, fallback) : fallback;
}

std::vector<std::string> HfFields::texts(std::string_view key) {
  return given(key) ? reader_.texts(key) : std::vector<std::string>();
}

std::vector<std::int64_t> HfFields::integers(std::string_view key) {
  return given(key) ? reader_.integers(key, kRange) : std::vector<std::int64_t>();
}

void HfFields::ignore(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
}

void HfFields::fault(std::string_view key, std::string message, std::string hint) {
  ignore(key);
  reader_.fault(key, std::move(message), std::move(hint));
}

std::vector<std::string> HfFields::unread() const {
  std::vector<std::string> keys;
  if (root_.kind() != config::Node::Kind::map) return keys;
  for (const std::string& key : root_.keys()) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) keys.push_back(key);
  }
  return keys;
}

void read_heads(HfFields& fields, Architecture& arch) {
  Attention& a = arch.attention;
  a.kind = AttentionKind::gqa;
  a.heads = fields.integer("num_attention_heads");
  a.kv_heads = fields.integer_or("num_key_value_heads", a.heads);
  const bool divides = a.heads > 0 && arch.hidden % a.heads == 0;
  if (!fields.given("head_dim") && a.heads > 0 && !divides) {
    fields.fault(
        "num_attention_heads",
        fmt::format("'head_dim' is not given, and hidden_size ({}) is no multiple of {} heads", arch.hidden, a.heads));
  }
  a.head_dim = fields.integer_or("head_dim", divides ? arch.hidden / a.heads : 0);
}

void read_dense_first(HfFields& fields, Architecture& arch, bool has_experts) {
  const std::int64_t dense = fields.integer_or("first_k_dense_replace", 0);
  const std::int64_t step = fields.step("moe_layer_freq");
  if (fields.given("mlp_layer_types")) {
    const std::vector<std::string> types = fields.texts("mlp_layer_types");
    if (types.size() != arch.layers.size()) {
      fields.fault("mlp_layer_types", fmt::format("expected {} layers, got {}", arch.layers.size(), types.size()));
    }
    for (std::size_t i = 0; i < std::min(types.size(), arch.layers.size()); ++i) {
      if (types[i] != "dense" && types[i] != "sparse") {
        fields.fault("mlp_layer_types", fmt::format("expected one of dense, sparse, got '{}'", types[i]));
      }
      arch.layers[i] = types[i] == "dense" ? LayerKind::dense : LayerKind::moe;
    }
    return;
  }
  for (std::size_t i = 0; i < arch.layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    arch.layers[i] = has_experts && layer >= dense && layer % step == 0 ? LayerKind::moe : LayerKind::dense;
  }
}

void read_windows(HfFields& fields, Architecture& arch, const std::vector<bool>& has_window) {
  std::vector<bool> windowed = has_window;
  windowed.resize(arch.layers.size(), false);
  if (fields.given("layer_types")) {
    const std::vector<std::string> types = fields.texts("layer_types");
    if (types.size() != arch.layers.size()) {
      fields.fault("layer_types", fmt::format("expected {} layers, got {}", arch.layers.size(), types.size()));
      return;
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      windowed[i] = types[i] == "sliding_attention";
      if (windowed[i] || types[i] == "full_attention") continue;
      fields.fault(
          "layer_types",
          fmt::format("layer {} (counted from 0) is of type '{}', which is not supported in this version", i, types[i]),
          "supported: full_attention, sliding_attention");
      return;
    }
  }
  const bool any = std::find(windowed.begin(), windowed.end(), true) != windowed.end();
  const std::int64_t window = any ? fields.integer("sliding_window") : 0;
  fields.ignore("sliding_window");
  arch.windows.assign(arch.layers.size(), 0);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i]) arch.windows[i] = window;
  }
}

void read_qwen_windows(HfFields& fields, Architecture& arch) {
  const bool used = fields.flag_or("use_sliding_window", false);
  const std::int64_t first = fields.integer_or("max_window_layers", 0);
  std::vector<bool> windowed(arch.layers.size(), false);
  for (std::size_t i = 0; i < windowed.size(); ++i) windowed[i] = used && static_cast<std::int64_t>(i) >= first;
  read_windows(fields, arch, windowed);
}

}  // namespace moeplan::model
