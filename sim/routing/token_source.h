#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "routing/loads.h"

// What the two ways of filling samples from a token trace share.
namespace moeplan::routing {

class TokenSource : public LoadSource {
 public:
  // The trace has the shape's layers and top-k and no id beyond its experts (trace_faults).
  TokenSource(std::shared_ptr<const TokenTrace> trace, const StepShape& shape);
  const StepShape& shape() const final { return shape_; }
  bool has_weights() const final { return !trace_->weights_of.empty(); }

 protected:
  const TokenTrace& trace() const { return *trace_; }
  std::size_t checked_layer(std::int64_t layer) const;
  // Number of the slice's first sample; the samples of a microbatch follow each other.
  std::int64_t first_sample(const TokenSlice& slice) const;
  std::string trace_text() const;  // "trace NAME: 8,327 tokens in 33 lines, 26 layers"
  double uses_per_token() const;   // tokens of a step over tokens of the trace
  // Pairs of the slice, where token_of(i, position) is the token of the trace at that position of the i-th sample.
  template <typename TokenOf>
  void fill_pairs(const TokenSlice& slice, std::int64_t layer, const TokenOf& token_of, std::vector<Pair>& out) const;

 private:
  std::shared_ptr<const TokenTrace> trace_;
  StepShape shape_;
};

template <typename TokenOf>
void TokenSource::fill_pairs(const TokenSlice& slice, std::int64_t layer, const TokenOf& token_of,
                             std::vector<Pair>& out) const {
  const std::size_t index = checked_layer(layer);
  const std::uint16_t* experts = trace_->experts_of[index].data();
  const float* weights = has_weights() ? trace_->weights_of[index].data() : nullptr;
  const float even = 1.0f / static_cast<float>(shape_.top_k);
  out.clear();
  out.reserve(static_cast<std::size_t>((slice.end - slice.begin) * shape_.micro_batch_size * shape_.top_k));
  std::int32_t token = 0;
  for (std::int64_t position = slice.begin; position < slice.end; ++position) {
    for (std::int64_t i = 0; i < shape_.micro_batch_size; ++i, ++token) {
      const std::int64_t first = token_of(i, position) * shape_.top_k;
      for (std::int64_t choice = first; choice < first + shape_.top_k; ++choice) {
        out.push_back({token, experts[choice], weights != nullptr ? weights[choice] : even});
      }
    }
  }
}

std::unique_ptr<LoadSource> make_line_loads(std::shared_ptr<const TokenTrace> trace, const StepShape& shape);
std::unique_ptr<LoadSource> make_drawn_loads(std::shared_ptr<const TokenTrace> trace, const StepShape& shape,
                                             std::uint64_t seed);

}  // namespace moeplan::routing
