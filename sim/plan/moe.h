#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/linear_input.h"
#include "plan/modules.h"
#include "policy/decision.h"

namespace moeplan::plan {

// How a MoE layer is treated in one (layer, microbatch): which block its ops come from.
struct Treatment {
  std::int64_t chunks = 1;
  policy::RoutedBackward backward = policy::RoutedBackward::kept;
  bool layer_notify = false;
  bool select = false;
  bool padded = false;          // rows are fixed by an expert capacity: no notify
  bool plan_placement = false;  // instances of experts are planned in forward
  bool replicate = false;       // some experts have instances on other ranks
  auto operator<=>(const Treatment&) const = default;
};
Treatment treatment_of(const policy::LayerDecision& decision);
// Whether forward holds activations of the routed part for backward (all of them, or of the retained rows).
bool holds_activations(policy::RoutedBackward backward);

// Router: scores of the local tokens, top-k, routing map.
class Router {
 public:
  explicit Router(Builder& builder);
  void forward();
  void drop(Op& op);  // frees all it allocated (checkpointed forward)
  void backward();    // adds to the gradient of the normed input; frees what forward kept

 private:
  Builder* b_;
  TensorId scores_, probabilities_, map_;
};

// The routed part: dispatch, experts, combine, by chunks. One instance a block; tensors are per chunk.
class Routed {
 public:
  Routed(Builder& builder, const Treatment& treatment);
  // All chunks. keep: activations stay for backward. Allocates output.
  void forward(TensorId output, bool keep);
  // All chunks, by the treatment: kept: backward alone; recompute: forward of a chunk again, then its backward;
  // redispatch: LRMoE mode B; kept_retained: mode A. Allocates grad_input; the caller frees it.
  void backward(TensorId grad_input);

 private:
  // How rows come to the experts and go back: one file each (alltoall.cpp, allgather.cpp, dispatch_kernels.cpp).
  enum class Path { alltoall, allgather, kernels };
  struct Chunk {
    TensorId send, send_probabilities, row_map, received, received_probabilities, input, probabilities, sort_map, fc1,
        silu, act, fc2, unsorted, returned, output;
    // What backward reads: the same, or the retained rows' own.
    TensorId kept_input, kept_probabilities, kept_sort_map, kept_fc1, kept_act, kept_row_map;
    TensorId grad_send, grad_received, grad_fc2, grad_act, grad_fc1, grad_probabilities, grad_input, grad_unsorted,
        grad_returned, grad_output;
    TensorId arrived, arrived_probabilities, reduced, grad_arrived, grad_reduced;  // expert tensor parallelism
    TensorId gathered, gathered_map, summed, wide, grad_wide;                      // allgather
    TensorId clamped, grad_clamped, biased;                                        // of experts with a clamp, a bias
    TensorId stash_input, stash_probabilities, stash_fc1, stash_act;               // paged stash
    std::vector<LinearInput> operands;                                             // in the order of Operand
  };
  enum class Operand { input, act, kept_input, kept_act, grad_fc2, grad_fc1 };
  static LinearInput& operand(Chunk& chunk, Operand which) { return chunk.operands[static_cast<std::size_t>(which)]; }
  Chunk make_chunk(std::size_t i);
  void make_operands(Chunk& chunk, std::size_t i, const std::string& tag);
  std::int64_t between_activations() const;  // tensors of the activation's width that backward reads besides
  void make_instance_tensors();
  // Sized by the rows of forward, or by the static buffers of a rank capacity.
  TensorId row_tensor(TensorKind kind, std::string name, std::int64_t bytes, Rows rows);
  Size row_size(std::int64_t bytes, Rows rows) const;
  bool slotted(const Rows& rows) const { return slots_ > 0 && rows.kind == Rows::Kind::received; }
  void forward_chunk(std::size_t i, TensorId output, bool keep);
  void experts(std::size_t i, bool keep);
  // Megatron runs both outside its fused kernels, in pieces (core/transformer/moe/experts.py, core/fusions).
  void clamp(std::size_t i);
  void clamp_backward(std::size_t i);
  void add_bias(std::size_t i, bool backward);

  // Rows of the local tokens to their experts (allocates input and probabilities), expert outputs back to the tokens,
  // and both for gradients.
  void dispatch(std::size_t i, bool selects);
  void combine(std::size_t i, TensorId output, bool keep, bool selects);
  void dispatch_gradient(std::size_t i);
  void return_gradient(std::size_t i, TensorId grad_input);
  void dispatch_alltoall(std::size_t i, bool selects);
  void combine_alltoall(std::size_t i, TensorId output, bool drop);
  void dispatch_gradient_alltoall(std::size_t i);
  void return_gradient_alltoall(std::size_t i, TensorId grad_input);
  void make_allgather(Chunk& chunk);
  void dispatch_allgather(std::size_t i);
  void combine_allgather(std::size_t i, TensorId output, bool drop);
  void dispatch_gradient_allgather(std::size_t i);
  void return_gradient_allgather(std::size_t i, TensorId grad_input);
  void make_kernels(Chunk& chunk, std::size_t i, const std::string& tag);
  void plan_kernels(std::size_t i);
  void permute_landed(std::size_t i, const char* name, Builder::Ids allocates, Builder::Ids frees);
  void dispatch_kernels(std::size_t i);
  void combine_kernels(std::size_t i, TensorId output, bool drop);
  void dispatch_gradient_kernels(std::size_t i);
  void return_gradient_kernels(std::size_t i, TensorId grad_input);

  void stash(std::size_t i, const char* name, TensorId paged, TensorId whole, std::int64_t bytes);
  void restore(std::size_t i);
  void dispatch_retained_gradient(std::size_t i);  // of the retained rows alone
  // Copies of the retained rows stay, the whole tensors go.
  void keep_retained(const char* name, std::int64_t row_bytes, std::size_t i, Builder::Ids kept, Builder::Ids dropped);
  void redispatch(std::size_t i);  // inputs and output gradients of retained rows, first projection again
  void expert_backward(std::size_t i);
  void notify(std::int64_t counts_per_expert = 1);
  void plan_placement();
  void place_experts();            // weights to the ranks that host instances
  void start_expert_gradients();   // of hosted instances
  void return_expert_gradients();  // to the experts' homes, where they are added
  void select();
  void concatenate(TensorId whole, bool gradient);
  bool redispatches() const { return treatment_.backward == policy::RoutedBackward::redispatch; }
  bool keeps_retained() const { return treatment_.backward == policy::RoutedBackward::kept_retained; }
  bool retained() const { return redispatches() || keeps_retained(); }  // backward has rows of its own
  Rows received(std::size_t chunk, bool backward) const;
  Rows arrived(std::size_t chunk) const;
  Rows distinct(std::size_t chunk) const;
  Rows sent(std::size_t chunk, bool backward) const;
  std::int64_t chunk_tokens() const;
  std::int64_t peers() const;  // ranks that together hold all experts

  Builder* b_;
  Treatment treatment_;
  bool recompute_act_;
  bool exchanged_;  // rows travel between ranks (ep > 1)
  bool etp_;        // experts are cut over peers, which gather their rows
  Path path_;
  bool sorted_;                        // rows are sorted by expert after arrival
  bool hybrid_;                        // the kernels of HybridEP, DeepEP's otherwise
  bool biased_, clamped_;              // outputs of experts get a bias; gate and up are clamped first
  bool stashes_;                       // static buffers, and saved rows in pages
  std::int64_t slots_;                 // rows of a static buffer; 0: as many as arrive
  std::int64_t ffn_, first_, hidden_;  // widths of the second matrix's input and the first one's output
  std::vector<Chunk> chunks_;
  TensorId scores_;
  TensorId hosted_weights_, hosted_gradients_, returned_gradients_;
};

}  // namespace moeplan::plan
