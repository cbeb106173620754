#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/grouped_gemm.h"
#include "kernels/maps.h"
#include "kernels/permute.h"
#include "kernels/retained.h"
#include "kernels/router.h"
#include "kernels/select.h"
#include "kernels/swiglu.h"
#include "layer/layer_case.h"

// Forward and backward of a MoE layer on one GPU: router, then by chunks dispatch, experts, combine; and back. One
// program for the host and the device: an Executor allocates, runs bodies and multiplies. It allocates and frees the
// tensors that moeplan's plan names (sim/plan/routed.cpp, alltoall.cpp), in that order.
//
// Executor:
//   void* take(const char* name, std::int64_t bytes); void give(void*);
//   template <class Body> void run(const Body&);
//   std::vector<std::int64_t> read(const std::int64_t* values, std::int64_t count);   waits for what was run
//   void router(Bf16 x [T,h], Bf16 w [E,h], float scores [T,E])                       scores = x w'
//   void router_dgrad(Bf16 g [T,E], Bf16 w [E,h], Bf16 dx [T,h])                      dx += g w
//   void router_wgrad(Bf16 g [T,E], Bf16 x [T,h], float dw [E,h])                     dw += g' x
//   void grouped(Pass, left, right, out, rows, n, k)                                  kernels/grouped_gemm.h
//   void phase(const char*)                                                           what follows belongs to it
namespace moeplan::layer {

using kernels::Bf16;
using kernels::Pack;
using kernels::Pass;

// What is there before and after a step: not of the layer's own memory.
struct FixedTensors {
  const Pack* input;  // [T, h]: copied to the layer's input as it arrives, and the gradient of its output
  const Pack* output_gradient;
  const Bf16* router;      // [E, h]
  const Bf16* gate_up;     // [E, 2 ffn, h]
  const Bf16* down;        // [E, h, ffn]
  float* router_gradient;  // of the same shapes, added to
  float* gate_up_gradient;
  float* down_gradient;
  Pack* output;  // [T, h]: where the results go when they leave
  Pack* input_gradient;
  const std::int32_t* choices;   // [T, k]: experts of the pairs, in place of the router's own
  std::int32_t* router_choices;  // [T, k]: the router's own, whose probabilities are the weights
  float* weights;                // [T, k]
  float* weight_gradient;        // [T, k]
  std::int32_t* counts;          // [tiles of all pairs, E]
  std::int64_t* rows;            // [E]
  std::int64_t* offsets;         // [chunks, E + 1]
  std::int64_t* row_of_pair;     // [T, k], of the whole layer: selection
  std::int64_t* new_row;         // [T, k]
  const std::int64_t* retained;  // [E + 1]: rows kept of the experts before
};

struct Rows {
  const std::int64_t* offsets = nullptr;  // where bodies read them
  std::vector<std::int64_t> host;         // the same
  std::int64_t total() const { return host.back(); }
};

template <class Executor>
class LayerProgram {
 public:
  LayerProgram(Executor& executor, const LayerCase& layer_case, const FixedTensors& fixed)
      : x_(executor), case_(layer_case), s_(case_.shape), f_(fixed), chunks_(static_cast<std::size_t>(case_.chunks)) {}

  void forward() {
    x_.phase("arrive");
    input_ = take<Pack>("normed input", token_bytes(s_.tokens));
    copy(f_.input, input_, s_.tokens);
    x_.phase("router");
    const std::int64_t cells = s_.tokens * s_.experts;
    scores_ = take<float>("router scores (fp32)", cells * 4);
    x_.router(as_bf16(input_), f_.router, scores_);
    probabilities_ = take<float>("router probabilities (fp32)", cells * 4);
    map_ = take<std::uint8_t>("routing map", cells);
    x_.run(kernels::RouterTopK{scores_, probabilities_, map_, f_.router_choices, f_.weights, s_.tokens, s_.experts,
                               s_.top_k});
    const bool keep = case_.backward == Backward::kept;
    for (std::size_t i = 0; i < chunks_.size(); ++i) forward_chunk(i, keep, false);
    Pack* output = chunks_.size() > 1 ? concatenate("MoE output", &Chunk::output) : chunks_[0].output;
    x_.phase("leave");
    copy(output, f_.output, s_.tokens);
    x_.give(output);
  }

  void backward() {
    x_.phase("arrive");
    gradient_ = take<Pack>("output gradient", token_bytes(s_.tokens));
    copy(f_.output_gradient, gradient_, s_.tokens);
    if (case_.backward == Backward::redispatch) select();
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (case_.backward == Backward::recompute) {
        forward_chunk(i, true, true);
        x_.give(chunks_[i].output);
      }
      if (case_.backward == Backward::redispatch)
        redispatch(chunks_[i]);
      else
        dispatch_gradient(i);
      expert_backward(i);
      return_gradient(i);
    }
    Pack* gradient =
        chunks_.size() > 1 ? concatenate("MoE input gradient", &Chunk::input_gradient) : chunks_[0].input_gradient;
    router_backward(gradient);
    x_.phase("leave");
    copy(gradient, f_.input_gradient, s_.tokens);
    for (void* tensor : {static_cast<void*>(input_), static_cast<void*>(gradient_), static_cast<void*>(gradient)})
      x_.give(tensor);
  }

 private:
  struct Chunk {
    Rows rows;
    Pack *received = nullptr, *gate_up = nullptr, *activation = nullptr, *expert_output = nullptr, *output = nullptr;
    float* row_weights = nullptr;
    std::int64_t* row_of_pair = nullptr;
    std::int32_t* retained_of_pair = nullptr;  // redispatch: and the weights of the rows behind it
    Pack *output_gradient = nullptr, *rows_gradient = nullptr, *input_gradient = nullptr;
  };

  template <class T>
  T* take(const char* name, std::int64_t bytes) {
    return static_cast<T*>(x_.take(name, bytes));
  }
  static const Bf16* as_bf16(const Pack* packs) { return reinterpret_cast<const Bf16*>(packs); }
  static Bf16* as_bf16(Pack* packs) { return reinterpret_cast<Bf16*>(packs); }
  std::int64_t token_bytes(std::int64_t tokens) const { return tokens * s_.hidden * 2; }
  std::int64_t chunk_tokens() const { return s_.tokens / case_.chunks; }
  std::int64_t chunk_pairs() const { return chunk_tokens() * s_.top_k; }
  // Of a chunk, in [T, h] and in [T, k].
  std::int64_t first_pack(std::size_t i) const { return static_cast<std::int64_t>(i) * chunk_tokens() * s_.hidden / 8; }
  std::int64_t first_pair(std::size_t i) const { return static_cast<std::int64_t>(i) * chunk_pairs(); }
  void copy(const Pack* from, Pack* to, std::int64_t tokens) {
    x_.run(kernels::Copy{from, to, tokens * s_.hidden / 8});
  }

  // Rows of the experts among `pairs` pairs; the host learns them (the plan's "notify").
  Rows count(std::int64_t first, std::int64_t pairs, std::int64_t* offsets) {
    const std::int64_t tiles = kernels::blocks_for(pairs, kernels::kPairTile);
    x_.run(kernels::CountPairs{f_.choices + first, f_.counts, pairs, s_.experts});
    x_.run(kernels::SumTiles{f_.counts, f_.rows, tiles, s_.experts});
    x_.run(kernels::SumExperts{f_.rows, offsets, s_.experts});
    return {offsets, x_.read(offsets, s_.experts + 1)};
  }
  void place(std::int64_t first, std::int64_t pairs, const std::int64_t* offsets, std::int64_t* row_of_pair) {
    x_.run(kernels::PlacePairs{f_.choices + first, f_.counts, offsets, row_of_pair, pairs, s_.experts});
  }

  void forward_chunk(std::size_t i, bool keep, bool again) {
    Chunk& c = chunks_[i];
    x_.phase(again ? "recompute" : "dispatch");
    c.rows = count(first_pair(i), chunk_pairs(), f_.offsets + static_cast<std::int64_t>(i) * (s_.experts + 1));
    const std::int64_t rows = c.rows.total();
    c.received = take<Pack>("received rows", token_bytes(rows));
    c.row_weights = take<float>("received probabilities", rows * 4);
    c.row_of_pair = take<std::int64_t>("row map", chunk_pairs() * 8);
    place(first_pair(i), chunk_pairs(), c.rows.offsets, c.row_of_pair);
    x_.run(kernels::Permute{input_ + first_pack(i), f_.weights + first_pair(i), c.row_of_pair, c.received,
                            c.row_weights, chunk_tokens(), s_.hidden, s_.top_k});
    if (!again) x_.phase("experts");
    c.gate_up = take<Pack>("expert gate-up output", rows * 2 * s_.ffn * 2);
    x_.grouped(Pass::forward, as_bf16(c.received), f_.gate_up, c.gate_up, c.rows, 2 * s_.ffn, s_.hidden);
    if (!keep) x_.give(c.received);
    c.activation = take<Pack>("expert activation", rows * s_.ffn * 2);
    x_.run(kernels::SwiGlu{c.gate_up, c.row_weights, c.activation, rows, s_.ffn});
    if (!keep) {
      x_.give(c.gate_up);
      x_.give(c.row_weights);
    }
    c.expert_output = take<Pack>("expert output", token_bytes(rows));
    x_.grouped(Pass::forward, as_bf16(c.activation), f_.down, c.expert_output, c.rows, s_.hidden, s_.ffn);
    if (!keep) x_.give(c.activation);
    if (!again) x_.phase("combine");
    c.output = take<Pack>(chunks_.size() > 1 ? "chunk output" : "MoE output", token_bytes(chunk_tokens()));
    x_.run(kernels::Unpermute<std::int64_t>{c.expert_output, nullptr, c.row_of_pair, c.output, chunk_tokens(),
                                            s_.hidden, s_.top_k});
    x_.give(c.expert_output);
    if (!keep) x_.give(c.row_of_pair);
  }

  Pack* concatenate(const char* name, Pack* Chunk::*part) {
    x_.phase("concatenate");
    Pack* whole = take<Pack>(name, token_bytes(s_.tokens));
    for (std::size_t i = 0; i < chunks_.size(); ++i) copy(chunks_[i].*part, whole + first_pack(i), chunk_tokens());
    for (Chunk& c : chunks_) x_.give(c.*part);
    return whole;
  }

  // LRMoE: the pairs of each expert with the highest scores.
  void select() {
    x_.phase("select");
    const Rows all = count(0, s_.pairs(), f_.offsets);
    place(0, s_.pairs(), all.offsets, f_.row_of_pair);
    float* scores = take<float>("selection scores", s_.pairs() * 4);
    x_.run(kernels::ScorePairs{input_, gradient_, f_.weights, f_.row_of_pair, scores, s_.tokens, s_.hidden, s_.top_k});
    x_.run(kernels::SelectRows{scores, all.offsets, f_.retained, f_.new_row, s_.experts});
    x_.give(scores);
  }

  // Inputs and output gradients of the retained pairs, and the first product again.
  void redispatch(Chunk& c) {
    x_.phase("redispatch");
    c.rows = {f_.retained, x_.read(f_.retained, s_.experts + 1)};
    const std::int64_t rows = c.rows.total();
    Pack* records = take<Pack>("gradient rows to send", rows * (2 * s_.hidden * 2 + 8));
    auto* slots = reinterpret_cast<std::int64_t*>(records + rows * 2 * s_.hidden / 8);
    // What has the same place in the plan is 8 bytes a retained row: here 4 a pair and 4 a retained row.
    c.retained_of_pair = take<std::int32_t>("retained row map", s_.pairs() * 4 + rows * 4);
    c.row_weights = reinterpret_cast<float*>(c.retained_of_pair + s_.pairs());
    x_.run(kernels::MapRetained{f_.row_of_pair, f_.new_row, f_.weights, c.retained_of_pair, c.row_weights, s_.pairs()});
    x_.run(
        kernels::GatherRetained{input_, gradient_, c.retained_of_pair, records, slots, s_.tokens, s_.hidden, s_.top_k});
    c.received = take<Pack>("retained expert input", token_bytes(rows));
    c.output_gradient = take<Pack>("expert output gradient", token_bytes(rows));
    x_.run(kernels::Compact{records, slots, c.received, c.output_gradient, rows, s_.hidden});
    x_.give(records);
    c.gate_up = take<Pack>("retained gate-up output", rows * 2 * s_.ffn * 2);
    x_.grouped(Pass::forward, as_bf16(c.received), f_.gate_up, c.gate_up, c.rows, 2 * s_.ffn, s_.hidden);
    c.activation = take<Pack>("retained activation", rows * s_.ffn * 2);
    x_.run(kernels::SwiGlu{c.gate_up, c.row_weights, c.activation, rows, s_.ffn});
  }

  void dispatch_gradient(std::size_t i) {
    Chunk& c = chunks_[i];
    x_.phase("dispatch");
    c.output_gradient = take<Pack>("expert output gradient", token_bytes(c.rows.total()));
    x_.run(kernels::Permute{gradient_ + first_pack(i), nullptr, c.row_of_pair, c.output_gradient, nullptr,
                            chunk_tokens(), s_.hidden, s_.top_k});
  }

  void expert_backward(std::size_t i) {
    Chunk& c = chunks_[i];
    const std::int64_t rows = c.rows.total();
    x_.phase("experts");
    auto* activation_gradient = take<Pack>("expert activation gradient", rows * s_.ffn * 2);
    x_.grouped(Pass::dgrad, as_bf16(c.output_gradient), f_.down, activation_gradient, c.rows, s_.hidden, s_.ffn);
    x_.grouped(Pass::wgrad, as_bf16(c.output_gradient), as_bf16(c.activation), f_.down_gradient, c.rows, s_.hidden,
               s_.ffn);
    x_.give(c.output_gradient);
    x_.give(c.activation);
    auto* gate_up_gradient = take<Pack>("expert gate-up gradient", rows * 2 * s_.ffn * 2);
    auto* weight_gradient = take<float>("expert probability gradient", rows * 4);
    x_.run(kernels::SwiGluBackward{c.gate_up, c.row_weights, activation_gradient, gate_up_gradient, weight_gradient,
                                   rows, s_.ffn});
    float* pair_gradient = f_.weight_gradient + first_pair(i);
    if (case_.backward == Backward::redispatch)
      x_.run(kernels::GatherPairs<std::int32_t>{weight_gradient, c.retained_of_pair, pair_gradient, s_.pairs()});
    else
      x_.run(kernels::GatherPairs<std::int64_t>{weight_gradient, c.row_of_pair, pair_gradient, chunk_pairs()});
    x_.give(c.gate_up);
    x_.give(activation_gradient);
    x_.give(weight_gradient);
    if (case_.backward != Backward::redispatch) x_.give(c.row_weights);
    c.rows_gradient = take<Pack>("expert input gradient", token_bytes(rows));
    x_.grouped(Pass::dgrad, as_bf16(gate_up_gradient), f_.gate_up, c.rows_gradient, c.rows, 2 * s_.ffn, s_.hidden);
    x_.grouped(Pass::wgrad, as_bf16(gate_up_gradient), as_bf16(c.received), f_.gate_up_gradient, c.rows, 2 * s_.ffn,
               s_.hidden);
    x_.give(gate_up_gradient);
    x_.give(c.received);
  }

  void return_gradient(std::size_t i) {
    Chunk& c = chunks_[i];
    x_.phase("combine");
    c.input_gradient =
        take<Pack>(chunks_.size() > 1 ? "chunk input gradient" : "MoE input gradient", token_bytes(chunk_tokens()));
    if (case_.backward == Backward::redispatch)
      x_.run(kernels::Unpermute<std::int32_t>{c.rows_gradient, nullptr, c.retained_of_pair, c.input_gradient, s_.tokens,
                                              s_.hidden, s_.top_k});
    else
      x_.run(kernels::Unpermute<std::int64_t>{c.rows_gradient, nullptr, c.row_of_pair, c.input_gradient, chunk_tokens(),
                                              s_.hidden, s_.top_k});
    x_.give(c.rows_gradient);
    if (case_.backward == Backward::redispatch)
      x_.give(c.retained_of_pair);
    else
      x_.give(c.row_of_pair);
  }

  void router_backward(Pack* gradient) {
    x_.phase("router");
    auto* logits = reinterpret_cast<Bf16*>(scores_);  // the scores are not read again
    x_.run(kernels::RouterBackward{probabilities_, f_.router_choices, f_.weight_gradient, logits, s_.tokens, s_.experts,
                                   s_.top_k});
    x_.router_dgrad(logits, f_.router, as_bf16(gradient));
    x_.router_wgrad(logits, as_bf16(input_), f_.router_gradient);
    x_.give(scores_);
    x_.give(probabilities_);
    x_.give(map_);
  }

  Executor& x_;
  LayerCase case_;
  LayerShape s_;
  FixedTensors f_;
  std::vector<Chunk> chunks_;
  Pack *input_ = nullptr, *gradient_ = nullptr;
  float *scores_ = nullptr, *probabilities_ = nullptr;
  std::uint8_t* map_ = nullptr;
};

}  // namespace moeplan::layer
