#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/launch.h"
#include "layer/caching_pool.h"
#include "layer/layer_program.h"
#include "layer_products.h"
#include "resources.h"

// A layer program on a device (layer/layer_program.h says what an executor does). For sources that nvcc compiles.
namespace moeplan::device {

struct DeviceMemory {
  void* take(std::size_t bytes) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
    cudaGetLastError();
    return nullptr;
  }
  void give(void* memory) { cudaFree(memory); }
};

class DeviceExecutor {
 public:
  DeviceExecutor(cudaStream_t stream, const layer::LayerShape& shape, bool together)
      : stream_(stream),
        shape_(shape),
        pool_(memory_),
        products_(stream, shape.experts, together),
        counts_(static_cast<std::size_t>(shape.experts + 1) * sizeof(std::int64_t)) {}

  void* take(const char*, std::int64_t bytes) { return pool_.take(bytes); }
  void give(void* tensor) { pool_.give(tensor); }
  template <class Body>
  void run(const Body& body) {
    MOEPLAN_CUDA(kernels::launch(body, stream_));
  }
  std::vector<std::int64_t> read(const std::int64_t* values, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(std::int64_t);
    MOEPLAN_CUDA(cudaMemcpyAsync(counts_.data(), values, bytes, cudaMemcpyDeviceToHost, stream_));
    MOEPLAN_CUDA(cudaStreamSynchronize(stream_));
    const auto* first = static_cast<const std::int64_t*>(counts_.data());
    return {first, first + count};
  }

  void router(const layer::Bf16* x, const layer::Bf16* w, float* scores) {
    products_.run({kernels::Pass::forward, x, w, scores, shape_.tokens, shape_.experts, shape_.hidden, true, false});
  }
  void router_dgrad(const layer::Bf16* g, const layer::Bf16* w, layer::Bf16* dx) {
    products_.run({kernels::Pass::dgrad, g, w, dx, shape_.tokens, shape_.experts, shape_.hidden, false, true});
  }
  void router_wgrad(const layer::Bf16* g, const layer::Bf16* x, float* dw) {
    products_.run({kernels::Pass::wgrad, g, x, dw, shape_.tokens, shape_.experts, shape_.hidden, true, true});
  }
  void grouped(kernels::Pass pass, const layer::Bf16* left, const layer::Bf16* right, void* out,
               const layer::Rows& rows, std::int64_t n, std::int64_t k) {
    const bool wgrad = pass == kernels::Pass::wgrad;
    products_.run_grouped({pass, left, right, out, rows.total(), n, k, wgrad, wgrad}, rows.host);
  }

  // Marks the time at which the phase begins.
  void phase(const char* name) {
    if (marked_ == events_.size()) events_.push_back(std::make_unique<Event>());
    events_[marked_]->record(stream_);
    names_.resize(marked_);
    names_.emplace_back(name);
    ++marked_;
  }
  // The last phase ends here.
  const Event& mark_end() {
    phase("end");
    return *events_[marked_ - 1];
  }
  // Microseconds of each phase since the last call, summed by name; waits for all that was run.
  std::map<std::string, double> take_times() {
    if (marked_ == 0 || names_.back() != "end") mark_end();
    events_[marked_ - 1]->wait();
    std::map<std::string, double> times;
    for (std::size_t i = 0; i + 1 < marked_; ++i)
      times[names_[i]] += 1e6 * seconds_between(*events_[i], *events_[i + 1]);
    marked_ = 0;
    return times;
  }

  layer::CachingPool<DeviceMemory>& pool() { return pool_; }
  const LayerProducts& products() const { return products_; }

 private:
  cudaStream_t stream_;
  layer::LayerShape shape_;
  DeviceMemory memory_;
  layer::CachingPool<DeviceMemory> pool_;
  LayerProducts products_;
  HostBuffer counts_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::string> names_;
  std::size_t marked_ = 0;
};

}  // namespace moeplan::device
