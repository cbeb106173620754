#include "cases.h"

#include <algorithm>

#include "support/scenarios.h"

namespace moeplan::property {
namespace {

using rc::gen::element;

std::string number(std::int64_t value) { return std::to_string(value); }

// Sizes are powers of two, so that they divide each other.
Case any_layout() {
  Case c;
  c.model = *element<std::string>("tiny-moe", "tiny-mla");
  c.tp = *element<std::int64_t>(1, 2);
  c.cp = *element<std::int64_t>(1, 2);
  c.pp = *element<std::int64_t>(1, 2);
  c.vpp = c.pp == 2 && c.model == "tiny-mla" ? *element<std::int64_t>(1, 2) : 1;
  c.ep = *element<std::int64_t>(1, 2, 4);
  c.etp = c.tp * c.cp > 1 ? *element<std::int64_t>(1, 2) : 1;
  c.copies = *element<std::int64_t>(1, 2);
  c.mbs = *element<std::int64_t>(1, 2, 3);
  c.microbatches = c.vpp > 1 ? *element<std::int64_t>(2, 4) : *element<std::int64_t>(1, 2, 3);
  c.seq = *element<std::int64_t>(64, 256, 1024);
  if (c.vpp == 1) c.schedule = *element<std::string>("", "gpipe");
  c.sharding = *element<std::string>("zero1", "ddp", "zero2", "zero3", "fsdp2", "megatron_fsdp");
  // Muon divides states by whole matrices, or not at all.
  const bool muon = (c.sharding == "zero1" || c.sharding == "ddp") && *rc::gen::inRange(0, 4) == 0;
  if (muon) c.kind = c.sharding == "ddp" ? "muon" : "dist_muon";
  c.fused = *rc::gen::inRange(0, 2) == 0;
  c.training = *element<std::string>("", ", hidden_dropout: 0.1", ", bias_activation_fusion: false");
  c.dispatcher = *element<std::string>("alltoall", "allgather", "deepep", "hybridep");
  c.routing = *element<std::string>("{ balanced: true }", "{ lognormal: { sigma: 0.4 } }",
                                    "{ lognormal: { sigma: 1.2, seed: 7 } }");
  return c;
}

std::string any_recompute(const Case& c) {
  const std::string modules = *element<std::string>("", "core_attn", "layernorm", "moe_act", "mlp", "moe",
                                                    "shared_experts", "moe_act, layernorm", "mla_up_proj, moe");
  if (modules.empty())
    return *element<std::string>("{}", "{ recompute_granularity: full }",
                                 "{ recompute_granularity: full, recompute_num_layers: 2 }",
                                 "{ recompute_granularity: full, recompute_num_layers: 3 }");
  if (modules.starts_with("mla") && c.model != "tiny-mla") return "{}";
  return "{ recompute_granularity: selective, recompute_modules: [" + modules + "] }";
}

std::string any_policies(const Case& c) {
  const bool memfine = c.dispatcher != "allgather", lrmoe = c.dispatcher == "alltoall" && c.etp == 1;
  std::string list = *element<std::string>("", "capacity: { factor: 1.0 }", "capacity: { factor: 0.7, pad: true }");
  const auto add = [&](const std::string& policy) { list += (list.empty() || policy.empty() ? "" : ", ") + policy; };
  if (memfine)
    add(*element<std::string>("", "memfine: { rule: fixed, chunks: 1 }", "memfine: { rule: fixed, chunks: 3 }",
                              "memfine: { rule: adaptive }"));
  if (lrmoe)
    add(*element<std::string>("", "lrmoe: { min_rows: 4 }", "lrmoe: { mode: A, min_rows: 4 }",
                              "lrmoe: { replicas: greedy, min_rows: 4 }"));
  return list.empty() ? "{}" : "{ " + list + " }";
}

}  // namespace

std::int64_t Case::gpus() const { return pp * copies * std::max(tp * cp, ep * etp); }

std::string Case::text() const {
  const std::int64_t dp = gpus() / (tp * cp * pp);
  return "model: " + model + "\ncluster: { hardware: h100-sxm, gpus: " + number(gpus()) +
         " }\nparallel: { tp: " + number(tp) + ", cp: " + number(cp) + ", pp: " + number(pp) +
         (vpp > 1 ? ", vpp: " + number(vpp) : "") + ", ep: " + number(ep) + ", etp: " + number(etp) +
         " }\ntraining: { micro_batch_size: " + number(mbs) +
         ", global_batch_size: " + number(mbs * dp * microbatches) + ", seq_length: " + number(seq) +
         (schedule.empty() ? "" : ", schedule: " + schedule) +
         ", overlap_p2p_comm: " + (overlap_p2p ? "true" : "false") + training + " }\noptimizer: { kind: " + kind +
         ", gradient_accumulation_fusion: " + (fused ? "true" : "false") + ", sharding: " + sharding +
         " }\nmemory: " + memory + "\nmoe: { dispatcher: " + dispatcher + ", policies: " + policies +
         " }\nrouting: " + routing + "\n";
}

std::shared_ptr<const scenario::Scenario> Case::make() const { return test::scenario_from(text()); }

plan::Plan Case::plan() const { return plan::make_plan(make(), 0, 1); }

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.text(); }

rc::Gen<Case> plain_case() { return rc::gen::exec(any_layout); }

rc::Gen<Case> any_case() {
  return rc::gen::exec([] {
    Case c = any_layout();
    c.memory = any_recompute(c);
    c.policies = any_policies(c);
    return c;
  });
}

rc::Gen<Case> split_case() {
  return rc::gen::exec([] {
    Case c = any_layout();
    c.schedule = *element<std::string>("zb_h1", "zb_v", "dualpipe", "dualpipe_v");
    c.vpp = 1;
    const bool v_shape = c.schedule.ends_with("_v");
    c.model = v_shape ? "tiny-mla" : c.model;  // has layers for two virtual stages a rank
    c.pp = c.schedule == "zb_h1" ? *element<std::int64_t>(1, 2) : 2;
    const std::int64_t least = c.schedule.starts_with("dualpipe") ? 2 * c.pp : 1;
    c.microbatches = least + *element<std::int64_t>(0, 2, 4);
    c.sharding = *element<std::string>("zero1", "ddp");
    if (c.kind != "adam") c.kind = c.schedule == "dualpipe" ? "adam" : c.sharding == "ddp" ? "muon" : "dist_muon";
    c.memory = any_recompute(c);
    if (c.memory.find("num_layers") != std::string::npos) c.memory = "{ recompute_granularity: full }";
    c.policies = any_policies(c);
    c.overlap_p2p = *element(false, true);
    const std::size_t chunks = c.policies.find("chunks: 3 }");
    if (chunks != std::string::npos && *element(false, true)) c.policies.insert(chunks + 9, ", pipelined: true");
    return c;
  });
}

}  // namespace moeplan::property
