#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "routing/loads.h"

namespace moeplan::routing {
namespace {

class MappedLoads final : public LoadSource {
 public:
  MappedLoads(std::unique_ptr<LoadSource> source, std::vector<std::int64_t> layers, std::string note)
      : source_(std::move(source)), layers_(std::move(layers)), note_(std::move(note)), shape_(source_->shape()) {
    for (const std::int64_t layer : layers_) {
      MOEPLAN_CHECK(0 <= layer && layer < shape_.moe_layers, "the map names layers of the source");
    }
    shape_.moe_layers = static_cast<std::int64_t>(layers_.size());
  }

  const StepShape& shape() const override { return shape_; }
  void add_counts(const TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    source_->add_counts(slice, source_layer(layer), out);
  }
  void pairs(const TokenSlice& slice, std::int64_t layer, std::vector<Pair>& out) const override {
    source_->pairs(slice, source_layer(layer), out);
  }
  bool has_weights() const override { return source_->has_weights(); }
  Description describe() const override {
    Description description = source_->describe();
    description.notes.push_back(note_);
    return description;
  }

 private:
  std::int64_t source_layer(std::int64_t layer) const {
    MOEPLAN_CHECK(0 <= layer && layer < shape_.moe_layers, "no such MoE layer");
    return layers_[static_cast<std::size_t>(layer)];
  }

  std::unique_ptr<LoadSource> source_;
  std::vector<std::int64_t> layers_;  // of the source, by MoE layer
  std::string note_;
  StepShape shape_;
};

std::unique_ptr<LoadSource> unmapped_loads(const std::shared_ptr<const Trace>& trace, const StepShape& shape,
                                           Resample resample, std::uint64_t seed) {
  // The parts share ownership with the variant that holds them.
  if (const auto* tokens = std::get_if<TokenTrace>(trace.get())) {
    return make_token_loads(std::shared_ptr<const TokenTrace>(trace, tokens), shape, resample, seed);
  }
  return make_count_loads(std::shared_ptr<const CountTrace>(trace, std::get_if<CountTrace>(trace.get())), shape);
}

// "0, 7, 15, 0, 7, ... 15": at most 8 of them.
std::string list_text(const std::vector<std::int64_t>& layers) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers.size() > kMost && i == kMost - 1) return text + fmt::format(", ... {}", layers.back());
    text += fmt::format("{}{}", i == 0 ? "" : ", ", layers[i]);
  }
  return text;
}

}  // namespace

std::unique_ptr<LoadSource> make_mapped_loads(std::unique_ptr<LoadSource> source, std::vector<std::int64_t> layers,
                                              std::string note) {
  return std::make_unique<MappedLoads>(std::move(source), std::move(layers), std::move(note));
}

std::unique_ptr<LoadSource> make_trace_loads(const std::shared_ptr<const Trace>& trace, const StepShape& shape,
                                             const TraceMap& map, Resample resample, std::uint64_t seed) {
  if (map.kind == TraceMap::Kind::same) return unmapped_loads(trace, shape, resample, seed);
  const std::vector<std::int64_t> own = trace_layers(*trace);
  std::vector<std::int64_t> numbers = map.layers;  // of the trace, by MoE layer
  if (map.kind == TraceMap::Kind::cyclic) {
    numbers.clear();
    for (std::int64_t i = 0; i < shape.moe_layers; ++i)
      numbers.push_back(own[static_cast<std::size_t>(i) % own.size()]);
  }
  MOEPLAN_CHECK(static_cast<std::int64_t>(numbers.size()) == shape.moe_layers, "the map has an entry for each layer");
  std::vector<std::int64_t> places;
  for (const std::int64_t number : numbers) {
    const auto found = std::lower_bound(own.begin(), own.end(), number);
    MOEPLAN_CHECK(found != own.end() && *found == number, "the map names layers of the trace");
    places.push_back(found - own.begin());
  }
  StepShape of_trace = shape;
  of_trace.moe_layers = static_cast<std::int64_t>(own.size());
  return make_mapped_loads(unmapped_loads(trace, of_trace, resample, seed), std::move(places),
                           "the MoE layers read the layers " + list_text(numbers) + " of the trace");
}

}  // namespace moeplan::routing
