#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grouped_call.h"
#include "kernels/bf16.h"
#include "kernels/pass.h"
#include "resources.h"

// The products of a layer run through cuBLAS, whose shapes are known only when the rows were counted.
namespace moeplan::device {

class LayerProducts {
 public:
  // together: one call for all experts (cublasGemmGroupedBatchedEx), where the library has it; else one a product.
  LayerProducts(cudaStream_t stream, std::int64_t experts, bool together);
  LayerProducts(const LayerProducts&) = delete;
  LayerProducts& operator=(const LayerProducts&) = delete;

  // All row-major. forward: out [rows, n] = left [rows, k] right [n, k]'; dgrad: out [rows, k] = left [rows, n] right
  // [n, k]; wgrad: out [n, k] += left [rows, n]' right [rows, k], fp32.
  struct Product {
    kernels::Pass pass = kernels::Pass::forward;
    const kernels::Bf16 *left = nullptr, *right = nullptr;
    void* out = nullptr;
    std::int64_t rows = 0, n = 0, k = 0;
    bool wide = false, adds = false;  // out is fp32; is added to (wgrad is both)
  };
  void run(const Product& product);
  // One for each expert, of rows offsets[e] to offsets[e + 1]; an expert without rows has none.
  void run_grouped(const Product& all, const std::vector<std::int64_t>& offsets);

  // "cuBLAS grouped 13.1.0", with ", weight gradients a product an expert" where the library has no grouped one of
  // their types; "cuBLAS a product an expert 13.1.0".
  std::string library() const;
  bool together() const { return together_; }

 private:
  bool run_together(const std::vector<Product>& products);
  CublasHandle handle_;
  cudaStream_t stream_;
  Buffer workspace_;
  std::int64_t experts_;
  bool together_, wgrad_together_ = true;  // weight gradients: until the library refuses bf16 operands with fp32 sums
  // Pointers of a call on their way to the device: a slot is used again after as many calls.
  static constexpr std::int64_t kSlots = 512;
  HostBuffer staging_;
  Buffer pointers_;
  std::int64_t slot_ = 0;
};

}  // namespace moeplan::device
