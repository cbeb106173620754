#include "plan/operator_checkpoint.h"

namespace moeplan::plan {

namespace {

constexpr std::int64_t kD = Shape::kElement;

class Products {
 public:
  Products(OperatorCheckpoint& checkpoint, std::int64_t tokens) : checkpoint_(checkpoint), tokens_(tokens) {}
  // The next product of the layer, `width` wide, a part of the named operation that is `whole` wide.
  void next(const std::string& name, std::int64_t width, std::int64_t whole) {
    double& repeats = checkpoint_.repeats.try_emplace(name, 0.0).first->second;
    if (++count_ % 2 == 1)
      checkpoint_.bytes += tokens_ * width * kD;
    else
      repeats += static_cast<double>(width) / static_cast<double>(whole);
  }
  void next(const std::string& name, std::int64_t width) { next(name, width, width); }

 private:
  OperatorCheckpoint& checkpoint_;
  std::int64_t tokens_;
  std::int64_t count_ = 0;
};

}  // namespace

OperatorCheckpoint operator_checkpoint(const scenario::Scenario& scenario, const Shape& s, const std::string& mlp,
                                       std::int64_t ffn) {
  const auto& a = scenario.model.attention;
  OperatorCheckpoint checkpoint;
  Products products(checkpoint, s.tokens);
  const auto reduced = [&](const std::string& name) {
    if (s.tp == 1) return;
    checkpoint.bytes += s.tokens_local * s.hidden * kD;
    checkpoint.repeats[name] = 0;
  };
  if (a.kind == model::AttentionKind::mla) {
    const std::int64_t query = s.heads_rank * a.qk_dim(), latent = a.kv_lora_rank + a.qk_rope_dim;
    if (a.q_lora_rank > 0) products.next("query down-projection", a.q_lora_rank);
    products.next("query up-projection", query);
    products.next("key-value down-projection", latent);
    products.next("key-value up-projection", s.heads_rank * (a.qk_nope_dim + a.v_head_dim));
  } else {
    const std::int64_t query = s.heads_rank * a.head_dim, key = s.kv_heads_rank * a.head_dim, all = query + 2 * key;
    products.next("qkv projection", query, all);
    products.next("qkv projection", key, all);
    products.next("qkv projection", key, all);
  }
  checkpoint.bytes += s.tokens * s.heads_rank * (a.v_dim() * kD + 4);  // attention's output and log-sum-exp
  checkpoint.repeats["core attention"] = 0;
  products.next("attention projection", s.hidden);
  reduced("attention reduce-scatter");
  if (ffn == 0) return checkpoint;
  const std::int64_t width = ffn / s.tp;
  for (std::int64_t gate = 0; gate < s.gates; ++gate) products.next(mlp + " gate-up", width, s.gates * width);
  products.next(mlp + " down", s.hidden);
  reduced(mlp + " reduce-scatter");
  return checkpoint;
}

void skip_kept(Block& block, const OperatorCheckpoint& checkpoint) {
  for (Op& op : block.backward) {
    if (!op.recompute) continue;
    const auto found = checkpoint.repeats.find(op.name);
    if (found == checkpoint.repeats.end()) continue;
    op.seconds *= found->second;
    if (found->second > 0) continue;
    op.work = Work::fixed;  // tensors come and go as if it ran
    op.seconds = 0;
    op.launches = 0;
  }
}

}  // namespace moeplan::plan
