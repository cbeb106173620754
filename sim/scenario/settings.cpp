#include "scenario/settings.h"

// Every name that a scenario file may write for these settings, in the order of the enum's values.
namespace moeplan::scenario {

std::span<const std::string> precision_names() {
  static const std::array<std::string, 7> names = {"bf16",          "fp16",  "fp8_tensorwise", "fp8_rowwise",
                                                   "fp8_blockwise", "mxfp8", "nvfp4"};
  return names;
}

std::span<const std::string> framework_names() {
  static const std::array<std::string, 2> names = {"megatron", "torchtitan"};
  return names;
}

std::span<const std::string> cuda_graph_names() {
  static const std::array<std::string, 4> names = {"none", "local", "transformer_engine", "full_iteration"};
  return names;
}

std::span<const std::string> sharding_names() {
  static const std::array<std::string, 6> names = {"ddp", "zero1", "zero2", "zero3", "fsdp2", "megatron_fsdp"};
  return names;
}

std::span<const std::string> optimizer_kind_names() {
  static const std::array<std::string, 3> names = {"adam", "muon", "dist_muon"};
  return names;
}

std::span<const std::string> offload_module_names() {
  static const std::array<std::string, 7> names = {"attn_norm", "qkv_linear", "core_attn", "attn_proj",
                                                   "mlp_norm",  "expert_fc1", "moe_act"};
  return names;
}

std::span<const std::string> dispatcher_names() {
  static const std::array<std::string, 4> names = {"alltoall", "allgather", "deepep", "hybridep"};
  return names;
}

}  // namespace moeplan::scenario
