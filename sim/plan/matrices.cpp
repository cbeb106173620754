#include "plan/matrices.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "plan/shape.h"
#include "plan/static_memory.h"

namespace moeplan::plan {

namespace {

class Collector {
 public:
  explicit Collector(const scenario::Scenario& scenario) : scenario_(scenario), s_(make_shape(scenario)) {}

  void add_layer(model::LayerKind kind) {
    const auto& model = scenario_.model;
    add_attention();
    if (kind == model::LayerKind::moe) {
      add(model.moe.experts, s_.hidden, 1, false);  // router
      add_mlp(model.moe.ffn / s_.etp, s_.local_experts, true);
      add_mlp(model.moe.shared_ffn / s_.tp, 1, false);
    } else {
      add_mlp(model.dense_ffn / s_.tp, 1, false);
    }
  }
  void add_mtp_projection() { add(s_.hidden / s_.tp, 2 * s_.hidden, 1, false); }

  std::vector<Matrix> list() const {
    std::vector<Matrix> matrices;
    for (const auto& [shape, count] : counts_) {
      const auto& [expert, rows, columns] = shape;
      matrices.push_back({rows, columns, count, expert});
    }
    std::stable_sort(matrices.begin(), matrices.end(),
                     [](const Matrix& a, const Matrix& b) { return a.rows * a.columns > b.rows * b.columns; });
    return matrices;
  }

 private:
  void add(std::int64_t rows, std::int64_t columns, std::int64_t count, bool expert) {
    if (rows > 0 && columns > 0) counts_[{expert, rows, columns}] += count;
  }
  void add_mlp(std::int64_t width, std::int64_t count, bool expert) {
    add(s_.gates * width, s_.hidden, count, expert);
    add(s_.hidden, width, count, expert);
  }
  void add_attention() {
    const auto& a = scenario_.model.attention;
    add(s_.hidden, s_.heads_rank * a.v_dim(), 1, false);
    if (a.kind != model::AttentionKind::mla) {
      add((s_.heads_rank + 2 * s_.kv_heads_rank) * a.head_dim, s_.hidden, 1, false);
      return;
    }
    add(a.q_lora_rank, s_.hidden, 1, false);
    add(s_.heads_rank * a.qk_dim(), a.q_lora_rank > 0 ? a.q_lora_rank : s_.hidden, 1, false);
    add(a.kv_lora_rank + a.qk_rope_dim, s_.hidden, 1, false);
    add(s_.heads_rank * (a.qk_nope_dim + a.v_head_dim), a.kv_lora_rank, 1, false);
  }

  const scenario::Scenario& scenario_;
  Shape s_;
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, std::int64_t> counts_;
};

struct Dealt {
  std::int64_t elements = 0;  // of one tensor
  bool muon = false;
};

// The share with the most bytes of states, of tensors that are dealt out 0, 1, .. n-1, n-1, .. 0, 0, 1, ..
OwnedParameters largest_share(std::vector<Dealt> tensors, std::int64_t ranks, const scenario::Optimizer& optimizer) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const Dealt& a, const Dealt& b) { return a.elements < b.elements; });
  std::vector<OwnedParameters> shares(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t n = shares.size(), turn = i / n % 2, place = i % n;
    OwnedParameters& share = shares[turn == 0 ? place : n - 1 - place];
    (tensors[i].muon ? share.muon : share.adam) += tensors[i].elements;
  }
  const auto bytes = [&](const OwnedParameters& share) {
    const std::int64_t muon = optimizer.master_bytes + optimizer.exp_avg_bytes;
    return share.muon * muon + share.adam * (muon + optimizer.exp_avg_sq_bytes);
  };
  return *std::max_element(shares.begin(), shares.end(),
                           [&](const OwnedParameters& a, const OwnedParameters& b) { return bytes(a) < bytes(b); });
}

}  // namespace

std::vector<Matrix> stage_matrices(const scenario::Scenario& scenario, std::int64_t stage) {
  Collector collector(scenario);
  for (const std::int32_t l : scenario.stages.layers_of(stage))
    collector.add_layer(scenario.model.layers[static_cast<std::size_t>(l)]);
  for (std::int64_t m = 0; m < scenario.stages.mtp_on(stage); ++m) {
    collector.add_layer(scenario.model.mtp_kind());
    collector.add_mtp_projection();
  }
  return collector.list();
}

OwnedParameters owned_by_muon(const scenario::Scenario& scenario, std::int64_t stage) {
  const StageParameters all = stage_parameters(scenario, stage);
  OwnedParameters sum;
  for (const bool expert : {false, true}) {
    std::vector<Dealt> tensors;
    std::int64_t rest = expert ? all.experts : all.dense;
    for (const Matrix& matrix : stage_matrices(scenario, stage)) {
      if (matrix.expert != expert) continue;
      for (std::int64_t i = 0; i < matrix.count; ++i) tensors.push_back({matrix.rows * matrix.columns, true});
      rest -= matrix.elements();
    }
    // Embedding and output layer, each whole; norms and the like are too small to be told apart.
    const std::int64_t table = make_shape(scenario).vocab_rank * scenario.model.hidden;
    while (!expert && rest >= table) {
      tensors.push_back({table, false});
      rest -= table;
    }
    if (rest > 0) tensors.push_back({rest, false});
    const Shards shards = shards_of(scenario);
    const OwnedParameters share = largest_share(tensors, expert ? shards.experts : shards.dense, scenario.optimizer);
    sum.muon += share.muon;
    sum.adam += share.adam;
  }
  return sum;
}

}  // namespace moeplan::plan
