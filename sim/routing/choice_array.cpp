#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "routing/array_trace.h"
#include "routing/count_rows.h"
#include "routing/formats.h"

namespace moeplan::routing {
namespace {

constexpr auto kMostIds = static_cast<std::int64_t>(kMostExperts);

class ChoiceReader {
 public:
  ChoiceReader(const NpyArray& choices, const SideArrays& side, const std::string& file)
      : choices_(choices), side_(side), file_(file) {}

  TokenTrace read() {
    check_shape();
    trace_.name = file_;
    trace_.top_k = top_k_;
    if (side_.experts) {
      trace_.experts = one_value(*side_.experts, 1, kMostIds);
      trace_.experts_stated = true;
    }
    if (side_.missing) missing_ = one_value(*side_.missing, -(std::int64_t{1} << 31), std::int64_t{1} << 31);
    find_layers();
    find_tokens();
    throw_first(faults_);
    if (tokens_.empty()) throw base::Error(at(), "no token has a route in all layers");
    for (std::size_t slot = 0; slot < layers_.size() && faults_.size() < kMostFaults; ++slot) add_layer(slot);
    throw_first(faults_);
    if (!trace_.experts_stated) trace_.experts = largest_ + 1;
    set_lines();
    return std::move(trace_);
  }

 private:
  base::Where at(std::string key = {}) const { return {file_, 0, 0, key.empty() ? choices_.name : std::move(key)}; }
  base::Where at(std::int64_t token, std::size_t layer) const {
    return at(fmt::format("{}[{}, {}]", choices_.name, token, layer));
  }
  std::size_t index(std::int64_t token, std::size_t layer) const {
    return (static_cast<std::size_t>(token) * extent_ + layer) * static_cast<std::size_t>(top_k_);
  }
  std::int64_t id(std::size_t i) const {
    return whole_at(choices_, i).value_or(std::numeric_limits<std::int64_t>::max());
  }

  void check_shape() {
    if (choices_.kind == 'f') throw base::Error(at(), "expected integers (ids of experts), got floats");
    if (choices_.shape.size() != 3) {
      throw base::Error(at(), "expected the shape [tokens, layers, k], got " + shape_text(choices_));
    }
    extent_ = static_cast<std::size_t>(choices_.shape[1]);
    top_k_ = choices_.shape[2];
    if (top_k_ > kMostTopK) {
      throw base::Error(
          at(), fmt::format("expected the shape [tokens, layers, k] with k at most 64, got {}", shape_text(choices_)));
    }
  }

  std::int64_t one_value(const NpyArray& array, std::int64_t low, std::int64_t high) {
    const std::optional<std::int64_t> value = array.size() == 1 ? whole_at(array, 0) : std::nullopt;
    if (value && *value >= low && *value <= high) return *value;
    throw base::Error(at(array.name), fmt::format("expected one integer from {} to {}", low, high));
  }

  // The layers that route: without stated ids, a layer of zeros alone is how recorders write a dense one.
  void find_layers() {
    const std::vector<std::int64_t> ids = layer_ids_of(side_, choices_.shape[1], file_);
    for (std::size_t layer = 0; layer < extent_; ++layer) {
      bool zeros = !side_.layer_ids && top_k_ >= 2;
      for (std::int64_t token = 0; token < choices_.shape[0] && zeros; ++token) {
        for (std::int64_t slot = 0; slot < top_k_ && zeros; ++slot) {
          zeros = id(index(token, layer) + static_cast<std::size_t>(slot)) == 0;
        }
      }
      if (zeros) continue;
      layers_.push_back(layer);
      trace_.layer_ids.push_back(static_cast<int>(ids[layer]));
    }
    if (layers_.empty()) throw base::Error(at(), "all ids are 0: no layer routes");
  }

  bool is_missing(std::int64_t token, std::size_t layer) const {
    for (std::size_t i = index(token, layer); i < index(token, layer) + static_cast<std::size_t>(top_k_); ++i) {
      if (id(i) != missing_) return false;
    }
    return true;
  }

  void find_tokens() {
    for (std::int64_t token = 0; token < choices_.shape[0]; ++token) {
      const bool left_out = missing_ && std::any_of(layers_.begin(), layers_.end(),
                                                    [&](std::size_t layer) { return is_missing(token, layer); });
      if (left_out) {
        ++trace_.left_out;
      } else {
        tokens_.push_back(token);
      }
    }
    if (side_.weights && side_.weights->shape != choices_.shape) {
      faults_.add(at(side_.weights->name), fmt::format("expected the shape of {}, {}, got {}", choices_.name,
                                                       shape_text(choices_), shape_text(*side_.weights)));
    }
  }

  void add_layer(std::size_t slot) {
    std::vector<std::uint16_t>& ids = trace_.experts_of.emplace_back();
    ids.reserve(tokens_.size() * static_cast<std::size_t>(top_k_));
    for (const std::int64_t token : tokens_) {
      if (faults_.size() >= kMostFaults) return;
      add_token(token, layers_[slot], ids);
    }
    if (!side_.weights) return;
    std::vector<float>& weights = trace_.weights_of.emplace_back();
    weights.reserve(ids.size());
    for (const std::int64_t token : tokens_) {
      for (std::int64_t k = 0; k < top_k_ && faults_.size() < kMostFaults; ++k) {
        const double weight = real_at(*side_.weights, index(token, layers_[slot]) + static_cast<std::size_t>(k));
        if (!(weight >= 0.0) || weight > static_cast<double>(std::numeric_limits<float>::max())) {
          faults_.add(at(fmt::format("{}[{}, {}, {}]", side_.weights->name, token, layers_[slot], k)),
                      "expected a finite weight >= 0");
          continue;
        }
        weights.push_back(static_cast<float>(weight));
      }
    }
  }

  void add_token(std::int64_t token, std::size_t layer, std::vector<std::uint16_t>& ids) {
    const std::size_t first = ids.size();
    const std::int64_t limit = trace_.experts_stated ? trace_.experts : kMostIds;
    for (std::int64_t k = 0; k < top_k_; ++k) {
      const std::size_t at_id = index(token, layer) + static_cast<std::size_t>(k);
      const std::int64_t value = id(at_id);
      if (value < 0 || value >= limit) {
        std::string hint = "an id that stands for \"no route\" is stated by an array 'missing' of the .npz";
        if (missing_) hint = fmt::format("only tokens all of whose ids are {} are without a route", *missing_);
        return faults_.add(at(token, layer),
                           fmt::format("expected ids from 0 to {}, got {}", limit - 1, integer_text(choices_, at_id)),
                           hint);
      }
      const auto expert = static_cast<std::uint16_t>(value);
      if (std::find(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), expert) != ids.end()) {
        return faults_.add(at(token, layer), fmt::format("the token names expert {} twice", value));
      }
      largest_ = std::max(largest_, value);
      ids.push_back(expert);
    }
  }

  // One line unless the file tells the sequences; tokens without a route count in none.
  void set_lines() {
    if (!side_.line_tokens) {
      trace_.line_tokens = {static_cast<std::int64_t>(tokens_.size())};
      return;
    }
    const NpyArray& lines = *side_.line_tokens;
    std::int64_t begin = 0;
    std::size_t next = 0;  // of tokens_
    for (std::size_t line = 0; line < lines.size(); ++line) {
      const std::int64_t length = whole_at(lines, line).value_or(-1);
      if (length < 0 || length > choices_.shape[0] - begin) {
        throw base::Error(at(fmt::format("{}[{}]", lines.name, line)),
                          fmt::format("expected lengths of lines that sum to {} tokens", choices_.shape[0]));
      }
      begin += length;
      std::int64_t kept = 0;
      for (; next < tokens_.size() && tokens_[next] < begin; ++next) ++kept;
      if (kept > 0) trace_.line_tokens.push_back(kept);
    }
    if (begin != choices_.shape[0] || lines.shape.size() != 1) {
      throw base::Error(at(lines.name),
                        fmt::format("the lines have {} tokens, {} has {}", begin, choices_.name, choices_.shape[0]));
    }
  }

  const NpyArray& choices_;
  const SideArrays& side_;
  std::string file_;
  std::size_t extent_ = 0;  // layers of the array
  std::int64_t top_k_ = 0, largest_ = 0;
  std::optional<std::int64_t> missing_;
  std::vector<std::size_t> layers_;   // of the array, those that route
  std::vector<std::int64_t> tokens_;  // of the array, those with a route
  TokenTrace trace_;
  base::Faults faults_;
};

}  // namespace

TokenTrace trace_of_choices(const NpyArray& choices, const SideArrays& side, const std::string& file) {
  return ChoiceReader(choices, side, file).read();
}

std::vector<std::int64_t> layer_ids_of(const SideArrays& side, std::int64_t extent, const std::string& file) {
  std::vector<std::int64_t> ids;
  constexpr std::int64_t kMostLayers = 1'000'000;
  if (extent > kMostLayers)
    throw base::Error({file, 0, 0, {}}, fmt::format("{} layers are more than 1,000,000", extent));
  if (!side.layer_ids) {
    for (std::int64_t layer = 0; layer < extent; ++layer) ids.push_back(layer);
    return ids;
  }
  const NpyArray& stated = *side.layer_ids;
  if (stated.shape != std::vector<std::int64_t>{extent}) {
    throw base::Error({file, 0, 0, stated.name}, fmt::format("expected one id for each of {} layers, got the shape {}",
                                                             extent, shape_text(stated)));
  }
  for (std::size_t layer = 0; layer < stated.size(); ++layer) {
    const std::optional<std::int64_t> id = whole_at(stated, layer);
    if (!id || *id < 0 || *id > kMostLayers || (!ids.empty() && *id <= ids.back())) {
      throw base::Error({file, 0, 0, fmt::format("{}[{}]", stated.name, layer)},
                        "expected layers from 0 to 1,000,000, each above the one before");
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace moeplan::routing
