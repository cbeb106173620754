#include "model/layer_pattern.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>

namespace moeplan::model {
namespace {

constexpr int kMaxParentheses = 32;

// Recursive descent over: sum = factor ('+' factor)*; factor = ('[' 0|1 (',' 0|1)* ']' | '(' sum ')') ('*' N)*.
class PatternParser {
 public:
  PatternParser(std::string_view text, std::string_view meaning) : text_(text), meaning_(meaning) {}

  FrequencyPattern parse() {
    std::vector<int> values = sum(0);
    skip_blanks();
    if (error_.empty() && next_ != text_.size()) fail("expected '+', '*' or the end");
    if (!error_.empty()) return {{}, error_};
    return {std::move(values), {}};
  }

 private:
  std::vector<int> sum(int depth) {
    std::vector<int> values = factor(depth);
    while (error_.empty() && accept('+')) {
      const std::vector<int> more = factor(depth);
      values.insert(values.end(), more.begin(), more.end());
      check_length(values.size());
    }
    return values;
  }

  std::vector<int> factor(int depth) {
    std::vector<int> values;
    if (accept('[')) {
      do {
        values.push_back(bit());
        check_length(values.size());
      } while (error_.empty() && accept(','));
      expect(']');
    } else if (accept('(')) {
      if (depth == kMaxParentheses) {
        fail("expected fewer parentheses");
        return {};
      }
      values = sum(depth + 1);
      expect(')');
    } else {
      fail("expected '[' or '('");
    }
    while (error_.empty() && accept('*')) repeat(values);
    return values;
  }

  int bit() {
    if (accept('0')) return 0;
    if (accept('1')) return 1;
    fail(fmt::format("expected {}", meaning_));
    return 0;
  }

  void repeat(std::vector<int>& values) {
    skip_blanks();
    std::int64_t count = 0;
    const char* const begin = text_.data() + next_;
    const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), count);
    if (status != std::errc() || count < 1 || count > kMaxLayers) {
      fail(fmt::format("expected a count from 1 to {}", kMaxLayers));
      return;
    }
    next_ += static_cast<std::size_t>(end - begin);
    const std::vector<int> once = values;
    if (!check_length(once.size() * static_cast<std::size_t>(count))) return;
    for (std::int64_t i = 1; i < count; ++i) values.insert(values.end(), once.begin(), once.end());
  }

  bool check_length(std::size_t length) {
    if (length <= static_cast<std::size_t>(kMaxLayers)) return true;
    fail(fmt::format("expected at most {} layers", kMaxLayers));
    return false;
  }

  void skip_blanks() {
    while (next_ < text_.size() && text_[next_] == ' ') ++next_;
  }
  bool accept(char wanted) {
    skip_blanks();
    if (next_ == text_.size() || text_[next_] != wanted) return false;
    ++next_;
    return true;
  }
  void expect(char wanted) {
    if (error_.empty() && !accept(wanted)) fail(fmt::format("expected '{}'", wanted));
  }
  void fail(const std::string& what) {
    if (error_.empty()) error_ = fmt::format("{} at character {} of '{}'", what, next_ + 1, text_);
  }

  std::string_view text_, meaning_;
  std::size_t next_ = 0;
  std::string error_;
};

// Layers that have a place in the design and no model yet.
constexpr std::array<std::string_view, 8> kUnsupportedKinds = {
    "linear_attention", "gated_delta_net", "lightning_attention", "mamba",
    "mamba2",           "state_space",     "sparse_attention",    "deepseek_sparse_attention"};

bool refuse_unsupported(const config::Node& item, base::Faults& faults) {
  if (item.kind() != config::Node::Kind::map || !item.has("kind")) return false;
  const config::Node kind = item.at("kind");
  if (kind.kind() != config::Node::Kind::scalar) return false;
  const std::string name = kind.scalar();
  if (std::find(kUnsupportedKinds.begin(), kUnsupportedKinds.end(), name) == kUnsupportedKinds.end()) return false;
  faults.add(kind.where(), fmt::format("layers of kind '{}' are not supported in this version", name),
             "supported: dense, moe");
  return true;
}

LayerKind kind_of(int value) { return value == 1 ? LayerKind::moe : LayerKind::dense; }

std::vector<LayerKind> read_layer_list(config::Reader& root) {
  const std::array<std::string, 2> kinds = {"dense", "moe"};
  const std::size_t before = root.faults().size();
  std::vector<LayerKind> layers;
  for (const config::Node& node : root.list("layers")) {
    if (refuse_unsupported(node, root.faults())) continue;
    config::Reader item(node, root.faults());
    const LayerKind kind = item.choice("kind", kinds) == 1 ? LayerKind::moe : LayerKind::dense;
    const std::int64_t count = item.integer("count", {1, kMaxLayers});
    item.finish();
    if (root.faults().size() != before) continue;  // the sum means nothing any more; go on for the faults of the rest
    if (static_cast<std::int64_t>(layers.size()) + count > kMaxLayers) {
      root.fault("layers", fmt::format("expected at most {} layers together", kMaxLayers));
      return {};
    }
    layers.insert(layers.end(), static_cast<std::size_t>(count), kind);
  }
  if (root.faults().size() != before) return {};
  if (layers.empty()) root.fault("layers", "expected a list of at least one { kind: dense or moe, count: N }");
  return layers;
}

void check_layer_count(config::Reader& root, std::string_view key, std::size_t found, std::int64_t num_layers) {
  if (found == static_cast<std::size_t>(num_layers)) return;
  root.fault(key, fmt::format("expected {} layers as num_layers says, got {}", num_layers, found));
}

// Values of moe_layer_freq where it is a list or a string; empty with a fault otherwise.
std::vector<int> read_frequency_values(config::Reader& root, const config::Node& node) {
  if (node.kind() == config::Node::Kind::list) {
    std::vector<int> values;
    for (const std::int64_t value : root.integers("moe_layer_freq", {0, 1})) values.push_back(static_cast<int>(value));
    return values;
  }
  FrequencyPattern pattern = parse_frequency_pattern(node.scalar());
  if (!pattern.error.empty()) {
    root.fault("moe_layer_freq", std::move(pattern.error), "a pattern reads like '([0]*3+[1]*58)': 0 dense, 1 MoE");
  }
  return std::move(pattern.values);
}

std::vector<LayerKind> read_layer_frequency(config::Reader& root, std::int64_t num_layers, bool has_moe) {
  const std::size_t count = static_cast<std::size_t>(num_layers);
  const std::optional<config::Node> node = root.node_if("moe_layer_freq");
  if (!node) return std::vector<LayerKind>(count, has_moe ? LayerKind::moe : LayerKind::dense);
  const std::size_t before = root.faults().size();
  std::vector<LayerKind> layers(count);
  const bool written_out =
      node->kind() == config::Node::Kind::list ||
      (node->kind() == config::Node::Kind::scalar && node->scalar().find_first_of("[(") != std::string::npos);
  if (written_out) {
    const std::vector<int> values = read_frequency_values(root, *node);
    if (root.faults().size() == before) check_layer_count(root, "moe_layer_freq", values.size(), num_layers);
    if (root.faults().size() != before) return {};
    std::transform(values.begin(), values.end(), layers.begin(), kind_of);
    return layers;
  }
  const std::int64_t step = root.integer("moe_layer_freq", {1, kMaxLayers});
  if (root.faults().size() != before) return {};
  for (std::size_t i = 0; i < count; ++i) layers[i] = kind_of(i % static_cast<std::size_t>(step) == 0 ? 1 : 0);
  return layers;
}

}  // namespace

FrequencyPattern parse_frequency_pattern(std::string_view text, std::string_view meaning) {
  return PatternParser(text, meaning).parse();
}

std::vector<LayerKind> read_layers(config::Reader& root) {
  const std::size_t before = root.faults().size();
  const bool has_list = root.has("layers");
  const bool has_count = root.has("num_layers");
  const bool has_frequency = root.has("moe_layer_freq");
  if (!has_list && !has_count) {
    root.fault("layers", "missing key 'layers' (or 'num_layers' with 'moe_layer_freq')");
    return {};
  }
  std::int64_t num_layers = 0;
  if (has_count) num_layers = root.integer("num_layers", {1, kMaxLayers});
  const bool count_is_good = root.faults().size() == before;
  if (!has_list) {
    if (!count_is_good) return {};
    return read_layer_frequency(root, num_layers, root.has("moe"));
  }
  if (has_frequency) root.fault("moe_layer_freq", "expected either 'layers' or 'moe_layer_freq', got both");
  std::vector<LayerKind> layers = read_layer_list(root);
  if (root.faults().size() != before) return {};
  if (has_count) check_layer_count(root, "layers", layers.size(), num_layers);
  return layers;
}

}  // namespace moeplan::model
