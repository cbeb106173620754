#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/check.h"
#include "routing/count_grid.h"
#include "routing/count_rows.h"
#include "routing/count_scaling.h"
#include "routing/even_rows.h"
#include "routing/loads.h"
#include "routing/shape.h"

namespace moeplan::routing {
namespace {

constexpr std::size_t kMostScalingNotes = 3;

// What one row stands for: a row without a source counts all replicas together, one without a microbatch all
// microbatches of a step. Its copies are spread over the tokens of all of them.
struct RowUnit {
  std::int64_t replicas = 1, microbatches = 1, tokens = 0;
};

RowUnit unit_of(const CountTrace& trace, const StepShape& shape) {
  constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1;  // what the spreading can hold
  const std::int64_t tokens = tokens_of_microbatch(shape);
  RowUnit unit;
  if (trace.rows.front().source < 0 && shape.data_parallel <= kMostTokens / tokens) unit.replicas = shape.data_parallel;
  if (trace.rows.front().microbatch < 0 && shape.microbatches <= kMostTokens / tokens / unit.replicas) {
    unit.microbatches = shape.microbatches;
  }
  unit.tokens = tokens * unit.replicas * unit.microbatches;
  return unit;
}

class CountLoads final : public LoadSource {
 public:
  CountLoads(std::shared_ptr<const CountTrace> trace, const StepShape& shape)
      : trace_(std::move(trace)),
        shape_(shape),
        sorted_(sorted_rows(*trace_)),
        grid_(grid_of(*trace_, sorted_)),
        unit_(unit_of(*trace_, shape)),
        rows_(unit_.tokens, shape.experts, shape.top_k) {
    MOEPLAN_CHECK(static_cast<std::int64_t>(grid_.layers.size()) == shape.moe_layers, "trace has other layers");
    MOEPLAN_CHECK(trace_->experts == shape.experts, "trace has other experts");
    const std::int64_t total = unit_.tokens * shape.top_k;
    rows_.reserve(sorted_.size());
    for (const std::size_t row : sorted_) rows_.add_row(scaled_counts(trace_->row_counts(row), total));
  }

  const StepShape& shape() const override { return shape_; }
  void add_counts(const TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    const std::int64_t first = first_token(slice);
    rows_.add_counts(row_of(slice, layer), first + slice.begin * shape_.micro_batch_size,
                     first + slice.end * shape_.micro_batch_size, out);
  }
  void pairs(const TokenSlice& slice, std::int64_t layer, std::vector<Pair>& out) const override {
    const std::int64_t first = first_token(slice);
    rows_.pairs(row_of(slice, layer), first + slice.begin * shape_.micro_batch_size,
                first + slice.end * shape_.micro_batch_size, out);
  }
  bool has_weights() const override { return false; }

  Description describe() const override {
    const CountStep& step = grid_.steps.front();
    const CountTrace::Row& first = trace_->rows[sorted_.front()];
    Description description;
    description.source = fmt::format(
        "counts {}: {}, {}, {}, {}", trace_->name, counted(static_cast<std::int64_t>(grid_.steps.size()), "step"),
        counted(static_cast<std::int64_t>(grid_.layers.size()), "layer"),
        first.microbatch < 0 ? "all microbatches together" : fmt::format("microbatches: {}", step.microbatches),
        first.source < 0 ? "all sources together" : fmt::format("sources: {}", step.sources));
    // Tokens of the first step in the trace, by its first layer.
    std::int64_t copies = 0;
    for (std::size_t i = 0; i < step.microbatches * step.sources; ++i) {
      copies += sum_of(trace_->row_counts(sorted_[step.first + i]));
    }
    const double uses = tokens_of_step(shape_) * static_cast<double>(shape_.top_k) / static_cast<double>(copies);
    description.repeats = uses > 1.0 ? uses : 0.0;
    add_scaling_notes(description.notes);
    if (uses > 1.0) {
      description.notes.push_back(
          fmt::format("fewer rows than a step needs: used again from the first, {:.1f} times on average", uses));
    }
    description.notes.push_back("each row is spread evenly over the tokens it stands for");
    return description;
  }

 private:
  // Where the slice's replica and microbatch start among the tokens of its row.
  std::int64_t first_token(const TokenSlice& slice) const {
    const std::int64_t microbatch = unit_.microbatches > 1 ? slice.microbatch : 0;
    const std::int64_t replica = unit_.replicas > 1 ? slice.replica : 0;
    return (microbatch * unit_.replicas + replica) * tokens_of_microbatch(shape_);
  }

  std::size_t row_of(const TokenSlice& slice, std::int64_t layer) const {
    MOEPLAN_CHECK(0 <= layer && layer < shape_.moe_layers, "no such MoE layer");
    MOEPLAN_CHECK(slice.iteration >= 0 && slice.microbatch >= 0 && slice.replica >= 0, "slices count from 0");
    const CountStep& step = grid_.steps[static_cast<std::size_t>(slice.iteration) % grid_.steps.size()];
    const std::size_t microbatch = static_cast<std::size_t>(slice.microbatch) % step.microbatches;
    const std::size_t source = static_cast<std::size_t>(slice.replica) % step.sources;
    return step.first + (static_cast<std::size_t>(layer) * step.microbatches + microbatch) * step.sources + source;
  }

  void add_scaling_notes(std::vector<std::string>& notes) const {
    const std::int64_t tokens = unit_.tokens;
    std::set<std::int64_t> others;  // tokens of rows that had to be scaled
    for (std::size_t row = 0; row < trace_->rows.size(); ++row) {
      const std::int64_t copies = sum_of(trace_->row_counts(row));
      if (copies != tokens * shape_.top_k) others.insert(copies / shape_.top_k);
    }
    std::size_t told = 0;
    for (const std::int64_t other : others) {
      if (++told > kMostScalingNotes) {
        notes.push_back(fmt::format("and from {} other numbers of tokens", others.size() - kMostScalingNotes));
        return;
      }
      notes.push_back(fmt::format("counts scaled from {} to {} tokens", with_thousands(other), with_thousands(tokens)));
    }
  }

  std::shared_ptr<const CountTrace> trace_;
  StepShape shape_;
  std::vector<std::size_t> sorted_;
  CountGrid grid_;
  RowUnit unit_;
  EvenRows rows_;  // in the order of sorted_
};

}  // namespace

std::unique_ptr<LoadSource> make_count_loads(std::shared_ptr<const CountTrace> trace, const StepShape& shape) {
  require_shape(shape);
  return std::make_unique<CountLoads>(std::move(trace), shape);
}

}  // namespace moeplan::routing
