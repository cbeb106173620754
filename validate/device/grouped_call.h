#pragma once
#include <cublas_v2.h>

#include <cstdint>
#include <vector>

#include "kernels/pass.h"
#include "lt_product.h"

// Products of row-major matrices in the terms of cuBLAS, alone and many in one call.
namespace moeplan::device {

class CublasHandle {
 public:
  CublasHandle() { MOEPLAN_CUBLAS(cublasCreate(&handle_)); }
  ~CublasHandle() { cublasDestroy(handle_); }
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;
  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

// By columns a row-major matrix is its transpose, so that the second operand stands first.
struct BlasCall {
  cublasOperation_t turn_first, turn_second;
  int m, n, k, ld_first, ld_second, ld_out;
};
// forward: [rows, n] = [rows, k] [n, k]'; dgrad: [rows, k] = [rows, n] [n, k]; wgrad: [n, k] = [rows, n]' [rows, k].
BlasCall blas_call(kernels::Pass pass, std::int64_t rows, std::int64_t n, std::int64_t k);

// bf16 operands, sums in fp32. The lists of shapes lie on the host, those of pointers on the device.
class GroupedCall {
 public:
  void add(const BlasCall& call);
  std::size_t size() const { return m_.size(); }
  // `pointers`: of the first operands, then of the second ones, then of the results. `adds`: to what is there.
  // CUBLAS_STATUS_NOT_SUPPORTED where the library has no such call (cublasGemmGroupedBatchedEx, cuBLAS 12.5) or none
  // for these types.
  cublasStatus_t run(cublasHandle_t handle, const void* const* pointers, cudaDataType out, bool adds) const;

 private:
  std::vector<cublasOperation_t> turn_first_, turn_second_;
  std::vector<int> m_, n_, k_, ld_first_, ld_second_, ld_out_, ones_;
  std::vector<float> factors_, keeps_;  // 1 and 0 a product
};

}  // namespace moeplan::device
