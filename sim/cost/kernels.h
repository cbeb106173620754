#pragma once
#include <cstdint>
#include <span>

#include "cost/shapes.h"
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

// Type of both operands of a matrix product; outputs stay bf16 (fp32 of a weight gradient). fp8: scales a tensor, row
// or block of 128; mxfp8: one byte of scale for 32 elements; nvfp4: one for 16. Attention is bf16 always.
enum class Precision { bf16, fp8, mxfp8, nvfp4 };
const char* precision_name(Precision precision);
// Whether the part has it: bf16 always, the others where the profile states an achieved peak. To ask for the time or
// the peak of a precision that it has not is an error of ours.
bool supports(const topology::HardwareProfile& profile, Precision precision);
double operand_bytes(Precision precision);  // an element, scales included: 2, 1, 1.03125, 0.5625
// Dense FLOP/s of the datasheet (the denominator of MFU), and those that large products approach: of bf16
// gemm.sustained where the profile has it, else gemm.peak; times gemm.in_steps.
double datasheet_peak(const topology::HardwareProfile& profile, Precision precision);
double achieved_peak(const topology::HardwareProfile& profile, Precision precision);
// Pipeline fill along the contraction, in elements: gemm.k_pad is of bf16; other precisions fill as long, in which
// faster units would have done more elements.
double fill_elements(const topology::HardwareProfile& profile, Precision precision);

inline constexpr double kGradientBytes = 8;  // accumulated in fp32; 4 in bf16
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;  // C[m,n] = A[m,k] B[k,n]
  GemmPass pass = GemmPass::forward;
  double gradient_bytes = kGradientBytes;  // wgrad: read and written an element of C
};
// With where the figure comes from, where the profile holds measured shapes.
ShapeTime gemm_time(const GemmShape& shape, const topology::HardwareProfile& profile,
                    Precision precision = Precision::bf16);
double gemm_time_s(const GemmShape& shape, const topology::HardwareProfile& profile,
                   Precision precision = Precision::bf16);

// One weight matrix [k, n] per expert, rows[e] rows of input for expert e. forward: rows x k -> rows x n; dgrad: rows x
// n -> rows x k; wgrad: accumulates [k, n] fp32 per expert that has rows. Rows are padded to whole tiles, whose height
// is chosen for the call; empty experts cost nothing.
double grouped_gemm_time_s(std::span<const std::int64_t> rows, std::int64_t n, std::int64_t k, GemmPass pass,
                           const topology::HardwareProfile& profile, Precision precision = Precision::bf16,
                           double gradient_bytes = kGradientBytes);

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, seq = 0;  // heads on this rank
  std::int64_t qk_dim = 0, v_dim = 0;
};
ShapeTime attention_time(const AttentionShape& shape, bool backward, const topology::HardwareProfile& profile);
double attention_forward_time_s(const AttentionShape& shape, const topology::HardwareProfile& profile);   // causal
double attention_backward_time_s(const AttentionShape& shape, const topology::HardwareProfile& profile);  // causal

enum class MemoryAccess { streaming, permute, loss };
// `bytes` read plus written from device memory.
double memory_bound_time_s(double bytes, MemoryAccess access, const topology::HardwareProfile& profile);

// `bytes` copied between device and host memory in one direction, over the host link alone (PCIe or C2C).
// has_host_link: whether the profile states its bandwidth; without it there is no time.
bool has_host_link(const topology::HardwareProfile& profile);
double host_copy_time_s(double bytes, const topology::HardwareProfile& profile);

}  // namespace moeplan::cost
