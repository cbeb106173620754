#pragma once
#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>

#include "check.h"
#include "resources.h"
#include "shapes.h"

// Matrix products through cuBLASLt, as frameworks call it: the first algorithm of its heuristic, with a workspace.
namespace moeplan::device {

void check_cublas(cublasStatus_t code, const char* call, const char* file, int line);
#define MOEPLAN_CUBLAS(call) ::moeplan::device::check_cublas((call), #call, __FILE__, __LINE__)

inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // NVIDIA's advice from Hopper on

class LtHandle {
 public:
  LtHandle() { MOEPLAN_CUBLAS(cublasLtCreate(&handle_)); }
  ~LtHandle() { cublasLtDestroy(handle_); }
  LtHandle(const LtHandle&) = delete;
  LtHandle& operator=(const LtHandle&) = delete;
  cublasLtHandle_t get() const { return handle_; }
  static std::string version();  // "13.1.0"

 private:
  cublasLtHandle_t handle_ = nullptr;
};

// What cuBLASLt makes and destroys: also where making the next one fails.
template <class Pointer, cublasStatus_t (*destroy)(Pointer)>
class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() {
    if (pointer_ != nullptr) destroy(pointer_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Pointer* place() { return &pointer_; }
  Pointer get() const { return pointer_; }

 private:
  Pointer pointer_ = nullptr;
};

// One shape, ready to run on any buffers of it. Operands lie as a training step has them: forward A [m,k] and the
// weight [n,k]; dgrad A [m,k] and the weight [k,n]; wgrad A [k,m] and B [k,n], with the fp32 result added to what is
// there. fp8 operands are e4m3 with scale 1, results bf16.
class LtProduct {
 public:
  // `alignment`: every buffer lies at a multiple of so many bytes, a power of two up to 256. Throws DeviceError where
  // the library has no algorithm for the shape.
  LtProduct(const LtHandle& handle, const ProductShape& shape, std::uint32_t alignment = 256);
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  void run(const void* a, const void* b, void* c, const Buffer& workspace, cudaStream_t stream) const;
  const ProductShape& shape() const { return shape_; }
  std::size_t a_bytes() const;
  std::size_t b_bytes() const;
  std::size_t c_bytes() const;

 private:
  const LtHandle& handle_;
  ProductShape shape_;
  Descriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation_;
  Descriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

// The largest relative difference between sampled elements of a product and their double-precision sums over the
// operands' own values, |got - wanted| / sum |a b|. Reads from the device; waits.
double sampled_error(const ProductShape& shape, const void* a, const void* b, const void* c, std::int64_t samples,
                     std::uint64_t seed);

}  // namespace moeplan::device
