#include "lt_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "difference.h"
#include "kernels/bf16.h"

namespace moeplan::device {
namespace {

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::size_t in_bytes(Type type) { return type == Type::bf16 ? 2 : 1; }

// e4m3: four exponent bits with bias 7, no infinities; 0x7F is NaN.
double e4m3_value(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  const double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  if ((bits & 0x7F) == 0x7F) return std::nan("");
  return (bits & 0x80) != 0 ? -value : value;
}

// `count` elements that lie `stride` elements apart, from the device.
std::vector<double> read_line(const void* data, std::size_t first, std::size_t stride, std::size_t count,
                              std::size_t bytes) {
  std::vector<unsigned char> raw(count * bytes);
  MOEPLAN_CUDA(cudaMemcpy2D(raw.data(), bytes, static_cast<const unsigned char*>(data) + first * bytes, stride * bytes,
                            bytes, count, cudaMemcpyDeviceToHost));
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes == 1) {
      values[i] = e4m3_value(raw[i]);
    } else if (bytes == 2) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, &raw[2 * i], 2);
      values[i] = kernels::to_float(kernels::Bf16{bits});
    } else {
      float value = 0;
      std::memcpy(&value, &raw[4 * i], 4);
      values[i] = value;
    }
  }
  return values;
}

}  // namespace

void check_cublas(cublasStatus_t code, const char* call, const char* file, int line) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  fail_call(std::string(cublasLtGetStatusString(code)) + " (" + cublasLtGetStatusName(code) + ")", call, file, line);
}

std::string LtHandle::version() {
  const std::size_t number = cublasLtGetVersion();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

// cuBLASLt counts by columns: its matrix [n,m] by columns is ours [m,n] by rows, so it multiplies B^T with A^T.
LtProduct::LtProduct(const LtHandle& handle, const ProductShape& shape, std::uint32_t alignment)
    : handle_(handle), shape_(shape) {
  const auto m = static_cast<std::uint64_t>(shape.m), n = static_cast<std::uint64_t>(shape.n),
             k = static_cast<std::uint64_t>(shape.k);
  const cudaDataType in = shape.type == Type::bf16 ? CUDA_R_16BF : CUDA_R_8F_E4M3;
  const cudaDataType out = shape.pass == Pass::wgrad ? CUDA_R_32F : CUDA_R_16BF;
  const cublasOperation_t turned = CUBLAS_OP_T, plain = CUBLAS_OP_N;
  const bool weight_turned = shape.pass == Pass::forward, input_turned = shape.pass == Pass::wgrad;
  MOEPLAN_CUBLAS(cublasLtMatmulDescCreate(operation_.place(), CUBLAS_COMPUTE_32F, CUDA_R_32F));
  MOEPLAN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_TRANSA,
                                                weight_turned ? &turned : &plain, sizeof turned));
  MOEPLAN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_TRANSB,
                                                input_turned ? &turned : &plain, sizeof turned));
  if (shape.type == Type::fp8) {
    const std::int8_t fast = 1;  // as training frameworks run forward products
    MOEPLAN_CUBLAS(
        cublasLtMatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
  }
  // The weight's matrix: [n,k] by rows is k x n by columns; [k,n] by rows is n x k.
  MOEPLAN_CUBLAS(cublasLtMatrixLayoutCreate(b_.place(), in, weight_turned ? k : n, weight_turned ? n : k,
                                            static_cast<std::int64_t>(weight_turned ? k : n)));
  MOEPLAN_CUBLAS(cublasLtMatrixLayoutCreate(a_.place(), in, input_turned ? m : k, input_turned ? k : m,
                                            static_cast<std::int64_t>(input_turned ? m : k)));
  MOEPLAN_CUBLAS(cublasLtMatrixLayoutCreate(c_.place(), out, n, m, shape.n));
  Descriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  MOEPLAN_CUBLAS(cublasLtMatmulPreferenceCreate(preference.place()));
  MOEPLAN_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &kWorkspaceBytes, sizeof kWorkspaceBytes));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    MOEPLAN_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &alignment, sizeof alignment));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  MOEPLAN_CUBLAS(cublasLtMatmulAlgoGetHeuristic(handle.get(), operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
                                                preference.get(), 1, &found, &count));
  if (count == 0) fail_call("no algorithm for this shape", "cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
  MOEPLAN_CUBLAS(found.state);
  algorithm_ = found.algo;
}

std::size_t LtProduct::a_bytes() const { return size(shape_.m) * size(shape_.k) * in_bytes(shape_.type); }
std::size_t LtProduct::b_bytes() const { return size(shape_.n) * size(shape_.k) * in_bytes(shape_.type); }
std::size_t LtProduct::c_bytes() const {
  return size(shape_.m) * size(shape_.n) * (shape_.pass == Pass::wgrad ? 4 : 2);
}

void LtProduct::run(const void* a, const void* b, void* c, const Buffer& workspace, cudaStream_t stream) const {
  const float one = 1, beta = shape_.pass == Pass::wgrad ? 1 : 0;
  MOEPLAN_CUBLAS(cublasLtMatmul(handle_.get(), operation_.get(), &one, b, b_.get(), a, a_.get(), &beta, c, c_.get(), c,
                                c_.get(), &algorithm_, workspace.data(), workspace.bytes(), stream));
}

double sampled_error(const ProductShape& shape, const void* a, const void* b, const void* c, std::int64_t samples,
                     std::uint64_t seed) {
  const std::size_t m = size(shape.m), n = size(shape.n), k = size(shape.k), bytes = in_bytes(shape.type);
  double worst = 0;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const std::size_t i = next_random(seed) % m, j = next_random(seed) % n;
    const std::vector<double> row =
        shape.pass == Pass::wgrad ? read_line(a, i, m, k, bytes) : read_line(a, i * k, 1, k, bytes);
    const std::vector<double> column =
        shape.pass == Pass::forward ? read_line(b, j * k, 1, k, bytes) : read_line(b, j, n, k, bytes);
    double wanted = 0, scale = 0;
    for (std::size_t at = 0; at < k; ++at) {
      wanted += row[at] * column[at];
      scale += std::abs(row[at] * column[at]);
    }
    const double got = read_line(c, i * n + j, 1, 1, shape.pass == Pass::wgrad ? 4 : 2)[0];
    const double error = std::abs(got - wanted) / scale;
    worst = worse(worst, error);
  }
  return worst;
}

}  // namespace moeplan::device
