#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenario/resolve.h"
#include "search/evaluate.h"

namespace moeplan::search {

// One --vary: "ep=8,16,32" or "memfine.rule=fixed,adaptive"; commas inside [ ] or { } or quotes do not separate values.
struct Axis {
  std::string key;                  // as typed
  std::vector<std::string> values;  // at least one, distinct
};
Axis parse_axis(const std::string& text);  // throws base::Error naming the option text

struct SweepRow {
  std::vector<std::string> values;       // in the order of the axes
  std::optional<Evaluation> evaluation;  // empty when the combination was refused
  std::string error;                     // why it was
};

// The grid, last axis fastest. `finished` is called once per row, in grid order, as soon as the row and all before it
// are done. A combination that cannot be (layout rules, fit of model and trace) is a row with its error, not an end.
// Throws base::Error before any row when a key is unknown or varied twice, when the scenario cannot be read or parsed,
// and when there are more than 100,000 combinations (times options.limit). What is returned lacks the lists of ranks
// and of tensors alive, which `finished` saw.
std::vector<SweepRow> run_sweep(const std::string& scenario_path, const scenario::Options& options,
                                const std::vector<Axis>& axes, const std::function<void(const SweepRow&)>& finished,
                                int threads = 0);

}  // namespace moeplan::search
