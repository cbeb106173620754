#include <fmt/core.h>

#include <algorithm>

#include "routing/array_trace.h"
#include "routing/count_grid.h"
#include "routing/count_rows.h"
#include "routing/formats.h"

namespace moeplan::routing {
namespace {

// The extents of a count array, 1 where its shape lacks one.
struct CountShape {
  std::size_t steps = 1, microbatches = 1, sources = 1, layers = 0, experts = 0;
  bool has_microbatches = false, has_sources = false;
};

CountShape shape_of(const NpyArray& counts, const base::Where& where) {
  const std::vector<std::int64_t>& extents = counts.shape;
  if (extents.size() < 2 || extents.size() > 5) {
    throw base::Error(where, "expected the shape [layers, experts], after steps, microbatches and sources, got " +
                                 shape_text(counts));
  }
  const auto extent = [&](std::size_t i) { return static_cast<std::size_t>(extents[i]); };
  CountShape shape;
  shape.experts = extent(extents.size() - 1);
  shape.layers = extent(extents.size() - 2);
  if (extents.size() >= 3) shape.steps = extent(0);
  if (extents.size() >= 4) shape.microbatches = extent(1);
  if (extents.size() >= 5) shape.sources = extent(2);
  shape.has_microbatches = extents.size() >= 4;
  shape.has_sources = extents.size() >= 5;
  if (shape.experts > kMostExperts) throw base::Error(where, "more than 65,535 experts");
  return shape;
}

class CountReader {
 public:
  CountReader(const NpyArray& counts, const SideArrays& side, const std::string& file)
      : counts_(counts), side_(side), file_(file), shape_(shape_of(counts, {file, 0, 0, counts.name})) {}

  CountTrace read() {
    const std::vector<std::int64_t> ids = layer_ids_of(side_, static_cast<std::int64_t>(shape_.layers), file_);
    find_zeros();
    trace_.name = file_;
    trace_.experts = static_cast<std::int64_t>(shape_.experts);
    const std::size_t rows = shape_.steps * shape_.microbatches * shape_.sources * shape_.layers;
    trace_.rows.reserve(rows);
    trace_.counts.reserve(rows * shape_.experts);
    for (std::size_t step = 0; step < shape_.steps; ++step) {
      if (idle_[step]) continue;
      for (std::size_t inner = 0; inner < shape_.microbatches * shape_.sources; ++inner) {
        for (std::size_t layer = 0; layer < shape_.layers && faults_.size() < kMostFaults; ++layer) {
          if (!dense_[layer]) add_row(step, inner, layer, ids[layer]);
        }
      }
    }
    throw_first(faults_);
    if (trace_.rows.empty()) throw base::Error({file_, 0, 0, counts_.name}, "all counts are 0");
    add_grid_faults(trace_, kMostFaults, faults_);
    throw_first(faults_);
    return std::move(trace_);
  }

 private:
  // inner: microbatch * sources + source.
  std::size_t row_index(std::size_t step, std::size_t inner, std::size_t layer) const {
    return (step * shape_.microbatches * shape_.sources + inner) * shape_.layers + layer;
  }

  void find_zeros() {
    idle_.assign(shape_.steps, 1);
    dense_.assign(shape_.layers, side_.layer_ids ? 0 : 1);
    for (std::size_t step = 0; step < shape_.steps; ++step) {
      for (std::size_t inner = 0; inner < shape_.microbatches * shape_.sources; ++inner) {
        for (std::size_t layer = 0; layer < shape_.layers; ++layer) {
          if (row_is_zero(row_index(step, inner, layer))) continue;
          idle_[step] = 0;
          dense_[layer] = 0;
        }
      }
    }
  }

  bool row_is_zero(std::size_t row) const {
    for (std::size_t e = 0; e < shape_.experts; ++e) {
      if (whole_at(counts_, row * shape_.experts + e) != 0) return false;
    }
    return true;
  }

  void add_row(std::size_t step, std::size_t inner, std::size_t layer, std::int64_t id) {
    const std::size_t row = row_index(step, inner, layer);
    row_.clear();
    std::string fault;
    for (std::size_t e = 0; e < shape_.experts; ++e) {
      const std::optional<std::int64_t> value = whole_at(counts_, row * shape_.experts + e);
      if (!value && fault.empty())
        fault = fmt::format("the count of expert {} is no whole number that is held exactly", e);
      row_.push_back(value.value_or(0));
    }
    trace_.counts.append(row_);
    if (fault.empty()) fault = row_fault(row_);
    if (!fault.empty()) faults_.add({file_, 0, 0, place(step, inner, layer)}, fault);
    CountTrace::Row entry;
    entry.step = static_cast<std::int64_t>(step);
    entry.layer = id;
    if (shape_.has_microbatches) entry.microbatch = static_cast<std::int64_t>(inner / shape_.sources);
    if (shape_.has_sources) entry.source = static_cast<std::int64_t>(inner % shape_.sources);
    trace_.rows.push_back(entry);
  }

  // "counts[3, 0, 7]": the indices of the row in the array.
  std::string place(std::size_t step, std::size_t inner, std::size_t layer) const {
    std::string text;
    if (counts_.shape.size() >= 3) text += fmt::format("{}, ", step);
    if (shape_.has_microbatches) text += fmt::format("{}, ", inner / shape_.sources);
    if (shape_.has_sources) text += fmt::format("{}, ", inner % shape_.sources);
    return fmt::format("{}[{}{}]", counts_.name, text, layer);
  }

  const NpyArray& counts_;
  const SideArrays& side_;
  std::string file_;
  CountShape shape_;
  std::vector<char> idle_, dense_;  // by step, by layer: nothing but zeros
  CountTrace trace_;
  std::vector<std::int64_t> row_;  // at hand
  base::Faults faults_;
};

}  // namespace

CountTrace trace_of_counts(const NpyArray& counts, const SideArrays& side, const std::string& file) {
  return CountReader(counts, side, file).read();
}

}  // namespace moeplan::routing
