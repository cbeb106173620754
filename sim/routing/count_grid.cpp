#include "routing/count_grid.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "base/check.h"

namespace moeplan::routing {
namespace {

using Place = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

Place place_of(const CountTrace::Row& row) { return {row.step, row.layer, row.microbatch, row.source}; }

std::string place_text(const Place& place) {
  const auto& [step, layer, microbatch, source] = place;
  std::string text = fmt::format("step {}, layer {}", step, layer);
  if (microbatch >= 0) text += fmt::format(", microbatch {}", microbatch);
  if (source >= 0) text += fmt::format(", source {}", source);
  return text;
}

base::Where where_of(const CountTrace& trace, const CountTrace::Row& row) {
  return {trace.name, static_cast<int>(row.line), 0, {}};
}

std::size_t end_of_step(const CountTrace& trace, const std::vector<std::size_t>& rows, std::size_t first) {
  std::size_t end = first;
  while (end < rows.size() && trace.rows[rows[end]].step == trace.rows[rows[first]].step) ++end;
  return end;
}

std::set<std::int64_t> layers_of(const CountTrace& trace) {
  std::set<std::int64_t> layers;
  for (const CountTrace::Row& row : trace.rows) layers.insert(row.layer);
  return layers;
}

// Walks the full grid of one step beside its sorted rows. Every turn uses up a row or reports a gap, so the walk ends
// after at most (rows + most) turns.
void add_gaps(const CountTrace& trace, std::span<const std::size_t> rows, const std::set<std::int64_t>& layers,
              std::size_t most, base::Faults& faults) {
  std::set<std::int64_t> microbatches, sources;
  for (const std::size_t row : rows) {
    microbatches.insert(trace.rows[row].microbatch);
    sources.insert(trace.rows[row].source);
  }
  const CountTrace::Row& first = trace.rows[rows.front()];
  std::size_t next = 0;
  for (const std::int64_t layer : layers) {
    for (const std::int64_t microbatch : microbatches) {
      for (const std::int64_t source : sources) {
        const Place wanted{first.step, layer, microbatch, source};
        if (next < rows.size() && place_of(trace.rows[rows[next]]) == wanted) {
          ++next;
          continue;
        }
        if (faults.size() >= most) return;
        faults.add(where_of(trace, first), "no row for " + place_text(wanted) + ", though others of the file have one");
      }
    }
  }
}

}  // namespace

std::vector<std::size_t> sorted_rows(const CountTrace& trace) {
  std::vector<std::size_t> rows(trace.rows.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::stable_sort(rows.begin(), rows.end(),
                   [&](std::size_t a, std::size_t b) { return place_of(trace.rows[a]) < place_of(trace.rows[b]); });
  return rows;
}

void add_grid_faults(const CountTrace& trace, std::size_t most, base::Faults& faults) {
  const std::vector<std::size_t> rows = sorted_rows(trace);
  for (std::size_t i = 1; i < rows.size() && faults.size() < most; ++i) {
    const CountTrace::Row& before = trace.rows[rows[i - 1]];
    const CountTrace::Row& here = trace.rows[rows[i]];
    if (place_of(before) != place_of(here)) continue;
    faults.add(where_of(trace, here), "a second row for " + place_text(place_of(here)), {}, {where_of(trace, before)});
  }
  if (!faults.empty()) return;  // with duplicates the walk below would report the same rows again
  const std::set<std::int64_t> layers = layers_of(trace);
  for (std::size_t first = 0; first < rows.size() && faults.size() < most;) {
    const std::size_t end = end_of_step(trace, rows, first);
    add_gaps(trace, std::span(rows).subspan(first, end - first), layers, most, faults);
    first = end;
  }
}

CountGrid grid_of(const CountTrace& trace, const std::vector<std::size_t>& rows) {
  CountGrid grid;
  const std::set<std::int64_t> layers = layers_of(trace);
  grid.layers.assign(layers.begin(), layers.end());
  for (std::size_t first = 0; first < rows.size();) {
    const std::size_t end = end_of_step(trace, rows, first);
    std::set<std::int64_t> microbatches, sources;
    for (std::size_t i = first; i < end; ++i) {
      microbatches.insert(trace.rows[rows[i]].microbatch);
      sources.insert(trace.rows[rows[i]].source);
    }
    MOEPLAN_CHECK(end - first == layers.size() * microbatches.size() * sources.size(), "the rows are a full grid");
    grid.steps.push_back({first, microbatches.size(), sources.size()});
    first = end;
  }
  return grid;
}

}  // namespace moeplan::routing
