#pragma once
#include <memory>
#include <vector>

#include "layer/host_executor.h"
#include "layer/layer_data.h"

// One layer with its data on the host.
namespace moeplan::layer {

class HostLayer {
 public:
  HostLayer(const LayerCase& layer_case, const std::vector<std::int32_t>& choices,
            kernels::Order order = kernels::Order::forward)
      : executor_(order) {
    const std::vector<std::int64_t> retained = retained_offsets(layer_case);
    std::vector<void*> pointers;
    const std::vector<FixedSpec> specs = fixed_specs(layer_case);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const FixedSpec& spec = specs[i];
      memory_.emplace_back(static_cast<std::size_t>(spec.bytes + 15) / 16);  // as packs: 16-byte aligned
      void* data = memory_.back().data();
      if (spec.fill == FixedSpec::Fill::random_bf16)
        kernels::run_on_host(
            kernels::FillRandom<Bf16>{static_cast<Bf16*>(data), spec.bytes / 2, spec.seed, spec.scale});
      if (i == kChoices) std::memcpy(data, choices.data(), static_cast<std::size_t>(spec.bytes));
      if (i == kRetained) std::memcpy(data, retained.data(), static_cast<std::size_t>(spec.bytes));
      pointers.push_back(data);
    }
    fixed_ = fixed_tensors(pointers);
    executor_.set_shape(layer_case.shape);
    program_ = std::make_unique<LayerProgram<HostExecutor>>(executor_, layer_case, fixed_);
  }

  void forward() { program_->forward(); }
  void backward() { program_->backward(); }
  HostExecutor& executor() { return executor_; }
  const FixedTensors& fixed() const { return fixed_; }
  template <class T>
  const T* data(FixedName name) const {
    return reinterpret_cast<const T*>(memory_[name].data());
  }

 private:
  HostExecutor executor_;
  std::vector<std::vector<Pack>> memory_;
  FixedTensors fixed_{};
  std::unique_ptr<LayerProgram<HostExecutor>> program_;
};

}  // namespace moeplan::layer
