#include "plan/shape.h"

#include "cost/dispatch.h"
#include "model/parameters.h"

namespace moeplan::plan {

Shape make_shape(const scenario::Scenario& scenario) {
  const auto& arch = scenario.model;
  const auto& layout = scenario.layout;
  Shape shape;
  shape.tp = layout.tp;
  shape.cp = layout.cp;
  shape.ep = layout.ep;
  shape.etp = layout.etp;
  shape.gates = arch.mlp == model::MlpKind::swiglu ? 2 : 1;
  shape.tokens = scenario.training.micro_batch_size * scenario.training.seq_length / layout.cp;
  shape.tokens_local = shape.tokens / layout.tp;
  shape.hidden = arch.hidden;
  shape.vocab_rank = model::padded_vocab(arch, layout.tp) / layout.tp;
  shape.heads_rank = arch.attention.heads / layout.tp;
  shape.kv_heads_rank = arch.attention.kv_heads / layout.tp;
  shape.local_experts = arch.moe.experts > 0 ? arch.moe.experts / layout.ep : 0;
  return shape;
}

double distinct_share(const scenario::Scenario& scenario) {
  const auto& moe = scenario.model.moe;
  if (moe.experts == 0 || moe.top_k == 0) return 1;
  const auto k = static_cast<double>(moe.top_k);
  return cost::distinct_ranks(static_cast<double>(moe.experts), static_cast<double>(scenario.layout.ep), k) / k;
}

}  // namespace moeplan::plan
