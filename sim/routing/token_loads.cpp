#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "routing/line_packing.h"
#include "routing/prefix_counts.h"
#include "routing/shape.h"
#include "routing/token_source.h"

namespace moeplan::routing {

TokenSource::TokenSource(std::shared_ptr<const TokenTrace> trace, const StepShape& shape)
    : trace_(std::move(trace)), shape_(shape) {
  MOEPLAN_CHECK(static_cast<std::int64_t>(trace_->experts_of.size()) == shape.moe_layers, "trace has other layers");
  MOEPLAN_CHECK(trace_->top_k == shape.top_k && trace_->experts <= shape.experts, "trace has other experts or top-k");
  for (const auto& choices : trace_->experts_of) {
    MOEPLAN_CHECK(static_cast<std::int64_t>(choices.size()) == trace_->tokens() * shape.top_k, "one row a token");
  }
}

std::size_t TokenSource::checked_layer(std::int64_t layer) const {
  MOEPLAN_CHECK(0 <= layer && layer < shape_.moe_layers, "no such MoE layer");
  return static_cast<std::size_t>(layer);
}

std::int64_t TokenSource::first_sample(const TokenSlice& slice) const {
  MOEPLAN_CHECK(0 <= slice.begin && slice.begin <= slice.end && slice.end <= shape_.seq_length,
                "slice must lie in the sequence");
  return (slice.iteration * shape_.microbatches + slice.microbatch) * shape_.data_parallel * shape_.micro_batch_size +
         slice.replica * shape_.micro_batch_size;
}

std::string TokenSource::trace_text() const {
  std::string text = fmt::format("trace {}: {} in {}, {}", trace_->name, counted(trace_->tokens(), "token"),
                                 counted(static_cast<std::int64_t>(trace_->line_tokens.size()), "line"),
                                 counted(static_cast<std::int64_t>(trace_->layer_ids.size()), "layer"));
  if (trace_->left_out > 0) text += fmt::format(", {} without a route left out", counted(trace_->left_out, "token"));
  return text;
}

double TokenSource::uses_per_token() const { return tokens_of_step(shape_) / static_cast<double>(trace_->tokens()); }

namespace {

// Resample::lines: every sample is a window of the trace, so counts come from cumulative counts.
class LineLoads final : public TokenSource {
 public:
  LineLoads(std::shared_ptr<const TokenTrace> source, const StepShape& shape)
      : TokenSource(std::move(source), shape),
        tokens_(trace().tokens()),
        packing_(trace().line_tokens, shape.seq_length) {
    for (const auto& choices : trace().experts_of) layers_.emplace_back(choices, trace().experts, shape.top_k);
  }

  void add_counts(const TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    const PrefixCounts& counts = layers_[checked_layer(layer)];
    MOEPLAN_CHECK(static_cast<std::int64_t>(out.size()) >= trace().experts, "out has a place for every expert");
    const std::int64_t sample = first_sample(slice);
    for (std::int64_t i = 0; i < shape().micro_batch_size; ++i) {
      std::int64_t at = (packing_.first_token(sample + i) + slice.begin) % tokens_;
      for (std::int64_t left = slice.end - slice.begin; left > 0;) {
        const std::int64_t size = std::min(left, tokens_ - at);
        counts.add(at, at + size, out);
        left -= size;
        at = 0;
      }
    }
  }

  void pairs(const TokenSlice& slice, std::int64_t layer, std::vector<Pair>& out) const override {
    const std::int64_t sample = first_sample(slice);
    std::vector<std::int64_t> first;
    for (std::int64_t i = 0; i < shape().micro_batch_size; ++i) first.push_back(packing_.first_token(sample + i));
    const auto token_of = [&](std::int64_t i, std::int64_t position) {
      return (first[static_cast<std::size_t>(i)] + position) % tokens_;
    };
    fill_pairs(slice, layer, token_of, out);
  }

  Description describe() const override {
    Description description{trace_text(), 0.0, {}};
    const std::string length = with_thousands(shape().seq_length);
    const auto lines = static_cast<std::int64_t>(trace().line_tokens.size());
    const std::int64_t samples = shape().microbatches * shape().data_parallel * shape().micro_batch_size;
    if (packing_.lines_used(samples, lines) > lines) {
      description.repeats = uses_per_token();
      description.notes.push_back(fmt::format(
          "shorter than a step: continued by whole lines from the first again, each sample cut to {} tokens; "
          "the step uses each token {:.1f} times on average",
          length, description.repeats));
    } else {
      description.notes.push_back(fmt::format("samples are whole lines in their order, cut to {} tokens", length));
    }
    const std::int64_t longer = std::count_if(trace().line_tokens.begin(), trace().line_tokens.end(),
                                              [&](std::int64_t tokens) { return tokens > shape().seq_length; });
    if (longer > 0) {
      description.notes.push_back(
          fmt::format("tokens beyond {} of {} are not used", length, counted(longer, "long line")));
    }
    return description;
  }

 private:
  std::int64_t tokens_;
  LinePacking packing_;
  std::vector<PrefixCounts> layers_;
};

}  // namespace

std::unique_ptr<LoadSource> make_line_loads(std::shared_ptr<const TokenTrace> trace, const StepShape& shape) {
  return std::make_unique<LineLoads>(std::move(trace), shape);
}

std::unique_ptr<LoadSource> make_token_loads(std::shared_ptr<const TokenTrace> trace, const StepShape& shape,
                                             Resample resample, std::uint64_t seed) {
  require_shape(shape);
  return resample == Resample::lines ? make_line_loads(std::move(trace), shape)
                                     : make_drawn_loads(std::move(trace), shape, seed);
}

}  // namespace moeplan::routing
