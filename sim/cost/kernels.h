#pragma once
#include <cstdint>
#include <span>

#include "topology/hardware.h"

// Seconds of compute kernels on one GPU. One section of docs/models.md each: formula, units, source, what it leaves
// out. All shapes are whole numbers >= 0; a shape with no work takes no time (0), anything else at least the launch
// floor.
namespace moeplan::cost {

enum class GemmPass {
  forward,
  dgrad,
  wgrad
};  // layouts TN, NN, NT; wgrad accumulates into fp32 (reads and writes 4 B an element)

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;  // C[m,n] = A[m,k] B[k,n], bf16 in
  GemmPass pass = GemmPass::forward;
};
double gemm_time_s(const GemmShape& shape, const topology::HardwareProfile& profile);

// One weight matrix [k, n] per expert, rows[e] rows of input for expert e. forward: rows x k -> rows x n; dgrad: rows x
// n -> rows x k; wgrad: accumulates [k, n] fp32 per expert that has rows. Rows are padded to whole tiles; empty experts
// cost nothing.
double grouped_gemm_time_s(std::span<const std::int64_t> rows, std::int64_t n, std::int64_t k, GemmPass pass,
                           const topology::HardwareProfile& profile);

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, seq = 0;  // heads on this rank
  std::int64_t qk_dim = 0, v_dim = 0;
};
double attention_forward_time_s(const AttentionShape& shape, const topology::HardwareProfile& profile);   // causal
double attention_backward_time_s(const AttentionShape& shape, const topology::HardwareProfile& profile);  // causal

enum class MemoryAccess { streaming, permute, loss };
// `bytes` read plus written from device memory.
double memory_bound_time_s(double bytes, MemoryAccess access, const topology::HardwareProfile& profile);

}  // namespace moeplan::cost
