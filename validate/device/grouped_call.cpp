#include "grouped_call.h"

namespace moeplan::device {

BlasCall blas_call(kernels::Pass pass, std::int64_t all_rows, std::int64_t wide, std::int64_t deep) {
  const int rows = static_cast<int>(all_rows), n = static_cast<int>(wide), k = static_cast<int>(deep);
  if (pass == kernels::Pass::forward) return {CUBLAS_OP_T, CUBLAS_OP_N, n, rows, k, k, k, n};
  if (pass == kernels::Pass::dgrad) return {CUBLAS_OP_N, CUBLAS_OP_N, k, rows, n, k, n, k};
  return {CUBLAS_OP_N, CUBLAS_OP_T, k, n, rows, k, n, k};
}

void GroupedCall::add(const BlasCall& call) {
  turn_first_.push_back(call.turn_first);
  turn_second_.push_back(call.turn_second);
  m_.push_back(call.m);
  n_.push_back(call.n);
  k_.push_back(call.k);
  ld_first_.push_back(call.ld_first);
  ld_second_.push_back(call.ld_second);
  ld_out_.push_back(call.ld_out);
  ones_.push_back(1);
  factors_.push_back(1);
  keeps_.push_back(0);
}

cublasStatus_t GroupedCall::run(cublasHandle_t handle, const void* const* pointers, cudaDataType out, bool adds) const {
#if CUBLAS_VERSION >= 120500
  const std::size_t count = size();
  return cublasGemmGroupedBatchedEx(handle, turn_first_.data(), turn_second_.data(), m_.data(), n_.data(), k_.data(),
                                    factors_.data(), pointers, CUDA_R_16BF, ld_first_.data(), pointers + count,
                                    CUDA_R_16BF, ld_second_.data(), (adds ? factors_ : keeps_).data(),
                                    const_cast<void* const*>(pointers + 2 * count), out, ld_out_.data(),
                                    static_cast<int>(count), ones_.data(), CUBLAS_COMPUTE_32F);
#else
  (void)handle, (void)pointers, (void)out, (void)adds;
  return CUBLAS_STATUS_NOT_SUPPORTED;
#endif
}

}  // namespace moeplan::device
