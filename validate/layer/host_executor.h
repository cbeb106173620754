#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/launch.h"
#include "layer/caching_pool.h"
#include "layer/layer_program.h"

// A layer program on the host: the same bodies, and the reference products by tiles. What results on a device are
// compared with, and what the tests run.
namespace moeplan::layer {

struct HostMemory {
  void* take(std::size_t bytes) { return std::aligned_alloc(512, bytes); }
  void give(void* memory) { std::free(memory); }
};

class HostExecutor {
 public:
  explicit HostExecutor(kernels::Order order = kernels::Order::forward) : order_(order), pool_(memory_) {}

  // What was there is overwritten with a pattern that no sum hides: a tensor read before it is written shows.
  void* take(const char* name, std::int64_t bytes) {
    void* tensor = pool_.take(bytes);
    if (tensor != nullptr) std::memset(tensor, 0xFF, static_cast<std::size_t>(bytes));
    taken_.emplace_back(name, bytes);
    return tensor;
  }
  void give(void* tensor) { pool_.give(tensor); }
  template <class Body>
  void run(const Body& body) {
    kernels::run_on_host(body, order_);
  }
  std::vector<std::int64_t> read(const std::int64_t* values, std::int64_t count) { return {values, values + count}; }
  void phase(const char* name) { phases_.emplace_back(name); }

  void router(const Bf16* x, const Bf16* w, float* scores) {
    std::fill_n(scores, shape_.tokens * shape_.experts, 0.0F);  // the body adds
    run(kernels::GroupedGemm<Pass::forward, float>{x, w, scores, tokens_, shape_.experts, shape_.hidden, shape_.tokens,
                                                   1});
  }
  void router_dgrad(const Bf16* g, const Bf16* w, Bf16* dx) {
    std::vector<float> sums(static_cast<std::size_t>(shape_.tokens * shape_.hidden));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = kernels::to_float(dx[i]);
    run(kernels::GroupedGemm<Pass::dgrad, float>{g, w, sums.data(), tokens_, shape_.experts, shape_.hidden,
                                                 shape_.tokens, 1});
    for (std::size_t i = 0; i < sums.size(); ++i) dx[i] = kernels::to_bf16(sums[i]);
  }
  void router_wgrad(const Bf16* g, const Bf16* x, float* dw) {
    run(kernels::GroupedGemm<Pass::wgrad, float>{g, x, dw, tokens_, shape_.experts, shape_.hidden, shape_.tokens, 1});
  }
  void grouped(Pass pass, const Bf16* left, const Bf16* right, void* out, const Rows& rows, std::int64_t n,
               std::int64_t k) {
    std::int64_t most = 0;
    for (std::size_t e = 0; e + 1 < rows.host.size(); ++e) most = std::max(most, rows.host[e + 1] - rows.host[e]);
    const int experts = static_cast<int>(rows.host.size()) - 1;
    if (pass == Pass::forward)
      run(kernels::GroupedGemm<Pass::forward, Bf16>{left, right, static_cast<Bf16*>(out), rows.offsets, n, k, most,
                                                    experts});
    if (pass == Pass::dgrad)
      run(kernels::GroupedGemm<Pass::dgrad, Bf16>{left, right, static_cast<Bf16*>(out), rows.offsets, n, k, most,
                                                  experts});
    if (pass == Pass::wgrad)
      run(kernels::GroupedGemm<Pass::wgrad, float>{left, right, static_cast<float*>(out), rows.offsets, n, k, most,
                                                   experts});
  }

  void set_shape(const LayerShape& shape) {
    shape_ = shape;
    tokens_[1] = shape.tokens;
  }
  CachingPool<HostMemory>& pool() { return pool_; }
  const std::vector<std::pair<std::string, std::int64_t>>& taken() const { return taken_; }
  const std::vector<std::string>& phases() const { return phases_; }

 private:
  kernels::Order order_;
  HostMemory memory_;
  CachingPool<HostMemory> pool_;
  LayerShape shape_;
  std::int64_t tokens_[2] = {0, 0};  // one group of all tokens
  std::vector<std::pair<std::string, std::int64_t>> taken_;
  std::vector<std::string> phases_;
};

}  // namespace moeplan::layer
