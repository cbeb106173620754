#pragma once
#include <cstdint>
#include <vector>

#include "scenario/scenario.h"

// Parameters of a rank as the matrices that they are, for an optimizer that works on whole ones.
namespace moeplan::plan {

// `count` weights of linear layers of one shape. Rows are outputs.
struct Matrix {
  std::int64_t rows = 0, columns = 0, count = 0;
  bool expert = false;
  std::int64_t elements() const { return rows * columns * count; }
  std::int64_t shorter() const { return rows < columns ? rows : columns; }
  std::int64_t longer() const { return rows < columns ? columns : rows; }
};

// Of a stage, on one rank; largest first. Without embedding and output layer (and norms, biases, sinks: no matrices).
std::vector<Matrix> stage_matrices(const scenario::Scenario& scenario, std::int64_t stage);

// Elements of parameters that a rank's optimizer updates: by Muon and by Adam. dist_muon deals whole tensors out in
// turns there and back, from the smallest on; this is what the rank with the most bytes of states gets.
struct OwnedParameters {
  std::int64_t muon = 0, adam = 0;
};
OwnedParameters owned_by_muon(const scenario::Scenario& scenario, std::int64_t stage);

}  // namespace moeplan::plan
