#pragma once
#include <cstdint>

#include "scenario/scenario.h"

namespace moeplan::plan {

// Bytes that element-wise operations move for one element of bf16, by what runs them: one kernel each, or the operators
// that a module is written in, one after the other, some of them in fp32 (docs/models.md, Memory-bound operations).
struct Passes {
  std::int64_t norm_forward = 4;          // reads the input, writes the output
  std::int64_t norm_backward = 6;         // reads input and gradient, writes one
  std::int64_t residual_gradient = 2;     // that is added to it: read beside, or by an operator
  std::int64_t rotary = 4;                // of query or key, in either direction
  std::int64_t activation_forward = 6;    // of one output: reads gate and up (or one), writes
  std::int64_t activation_backward = 10;  // reads them and the gradient, writes theirs
};

Passes passes(const scenario::Scenario& scenario);

}  // namespace moeplan::plan
