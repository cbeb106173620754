#pragma once

namespace moeplan::kernels {

enum class Pass {
  forward,  // out [rows, n] = rows [rows, k] times weights transposed
  dgrad,    // out [rows, k] = gradients [rows, n] times weights
  wgrad     // out [n, k] += gradients [rows, n] transposed times rows [rows, k], fp32; an expert without rows is left
};

}  // namespace moeplan::kernels
