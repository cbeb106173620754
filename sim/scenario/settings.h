#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

// What a scenario's sections say beside sizes: plain values, named as Megatron names them.
namespace moeplan::scenario {

// Names in the order of an enum's values, as files write them.
// selective_op: torchtitan keeps outputs of chosen operators.
enum class RecomputeGranularity { none, selective, full, selective_op };
// Megatron's module names; the routed part alone (router, shared expert and dense parts kept) is what MemFine and LRMoE
// recompute, not a module.
enum class RecomputeModule { core_attn, layernorm, mla_up_proj, moe_act, mlp, moe, shared_experts };

struct Recompute {
  RecomputeGranularity granularity = RecomputeGranularity::none;
  std::set<RecomputeModule> modules;  // of selective
  // Of full: nothing: groups of layers (uniform); else the first so many layers of a virtual stage (block).
  std::optional<std::int64_t> block_layers;
  std::int64_t uniform_layers = 1;  // of a group, which keeps the input of its first layer alone
  bool has(RecomputeModule module) const { return modules.contains(module); }
};

// Type of the linear layers' matrix products; attention, norms and the router stay bf16. fp8_*: one scale a tensor, a
// row, or a block of 128; mxfp8: of 32 elements; nvfp4: of 16.
enum class Precision { bf16, fp16, fp8_tensorwise, fp8_rowwise, fp8_blockwise, mxfp8, nvfp4 };
std::span<const std::string> precision_names();

enum class Framework { megatron, torchtitan };
std::span<const std::string> framework_names();

enum class CudaGraphs { none, local, transformer_engine, full_iteration };
std::span<const std::string> cuda_graph_names();

struct Training {
  std::int64_t micro_batch_size = 1, global_batch_size = 1, seq_length = 0;
  std::string schedule = "1f1b";
  Precision precision = Precision::bf16;
  Framework framework = Framework::megatron;
  bool fused_cross_entropy = true;
  bool in_place_cross_entropy = false;  // Transformer Engine's: the gradient replaces the logits in forward
  // Scores of all pairs as tensors, in place of a fused attention kernel; with dropout its masks too.
  bool unfused_attention = false;
  double attention_dropout = 0;
  double hidden_dropout = 0;           // of the outputs of attention and MLP, and of the embedding
  bool compile = false;                // torchtitan: modules are compiled; else operators run one after the other
  bool rms_norm_fusion = true;         // one kernel a norm; before PyTorch 2.9 operators, but where they are compiled
  bool bias_activation_fusion = true;  // the activation is one kernel, scaling by router weights included
  bool fp8_param_gather = false;       // linear layers hold and gather their parameters quantised
  CudaGraphs cuda_graphs = CudaGraphs::none;
  std::set<std::string> cuda_graph_scope;  // modules that are captured; empty: whole layers
  bool tp_comm_overlap = false, overlap_grad_reduce = false, overlap_param_gather = false;
  bool overlap_p2p_comm = false;  // pipeline receives are posted one visit ahead
  double total_tokens = 0;        // 0: not stated
  std::int64_t iterations = 1;
};

// Who holds parameters, gradients and optimizer states of a data-parallel group. ddp: all on every rank; zero1
// (Megatron's distributed optimizer): states divided; zero2: gradients too; zero3, fsdp2, megatron_fsdp: parameters
// too.
enum class Sharding { ddp, zero1, zero2, zero3, fsdp2, megatron_fsdp };
std::span<const std::string> sharding_names();

// muon: momentum alone for matrices of layers, orthogonalised by each rank; dist_muon: whole matrices dealt out to
// ranks.
enum class OptimizerKind { adam, muon, dist_muon };
std::span<const std::string> optimizer_kind_names();

struct Optimizer {
  OptimizerKind kind = OptimizerKind::adam;
  Sharding sharding = Sharding::zero1;
  std::int64_t shard_group = 0;        // ranks that divide; 0: all of the data-parallel group
  std::int64_t main_grad_bytes = 4;    // of one element of the gradient buffer
  std::int64_t grad_reduce_bytes = 0;  // of one element as it is sent; 0: as main_grad_bytes
  std::int64_t exp_avg_bytes = 4, exp_avg_sq_bytes = 4, master_bytes = 4;
  // Products add weight gradients to the gradient buffer; else each is a tensor first.
  bool gradient_accumulation_fusion = true;
  double offload_fraction = 0;  // of masters and moments, kept and updated on the host
  bool orthogonalises() const { return kind != OptimizerKind::adam; }
  bool shards_states() const { return sharding != Sharding::ddp; }
  bool shards_gradients() const { return sharding >= Sharding::zero2; }
  bool shards_parameters() const { return sharding >= Sharding::zero3; }
  std::int64_t reduce_bytes() const { return grad_reduce_bytes > 0 ? grad_reduce_bytes : main_grad_bytes; }
};

enum class Accounting { replay, closed_form };  // what the verdict is taken from

// Parts of a layer whose saved inputs go to the host after forward and come back before backward.
enum class OffloadModule { attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act };
std::span<const std::string> offload_module_names();

struct Memory {
  double usable_fraction = 0.94;
  std::optional<std::int64_t> given_static_bytes;  // parameters, gradients, optimizer states as given, not counted
  Accounting accounting = Accounting::replay;
  bool expandable_segments = false;                    // of PyTorch's allocator
  std::optional<std::int64_t> cublas_workspace_bytes;  // of each of PyTorch's handles; none: as the profile says
  std::set<OffloadModule> offload_modules;
};

// alltoall: whole rows to each expert's rank; allgather: all tokens to all ranks of the group; deepep, hybridep: one
// row a token and rank, one a token and domain across NICs (hybridep: into rows sorted by expert already).
enum class Dispatcher { alltoall, allgather, deepep, hybridep };
std::span<const std::string> dispatcher_names();

struct Dispatch {
  Dispatcher kind = Dispatcher::alltoall;
  std::int64_t sms = 0;  // multiprocessors of the dispatch kernels; 0: as the profile says
  bool overlap = false;  // expert-parallel communication of one microbatch under the compute of another
  bool delay_wgrad = false;
  bool permute_fusion = true;
  bool router_fusion = false;  // scores, choice and auxiliary loss in few kernels
  bool op_fuser = false;       // Transformer Engine's fused experts: activation, bias and casts within the products
  bool grouped_gemm = true;    // products of all experts as one; else one by one
  double rank_capacity_factor = 0;  // of static buffers, in mean rows of a rank; 0: sized by what arrives
  bool paged_stash = false;
  // Whether rows travel once per rank instead of once per expert.
  bool deduplicates() const { return kind == Dispatcher::deepep || kind == Dispatcher::hybridep; }
};

}  // namespace moeplan::scenario
