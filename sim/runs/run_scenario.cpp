#include "runs/run_scenario.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/nearest.h"
#include "config/data.h"
#include "runs/run_model.h"

namespace moeplan::runs {
namespace {

// One section of the file in flow style: "name: { key: value, key: value }".
class Section {
 public:
  explicit Section(std::string name) : name_(std::move(name)) {}
  void add(const std::string& key, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + key + ": " + value;
  }
  void add(const std::string& key, std::int64_t value) { add(key, std::to_string(value)); }
  void add_if(const std::string& key, const std::optional<bool>& value) {
    if (value) add(key, *value ? "true" : "false");
  }
  void add_list(const std::string& key, const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
    if (!words.empty()) add(key, "[" + list + "]");
  }
  std::string text() const { return text_.empty() ? "" : name_ + ": { " + text_ + " }\n"; }

 private:
  std::string name_, text_;
};

class Mapper {
 public:
  Mapper(const Run& run, const std::vector<std::string>& data_dirs) : run_(run), data_dirs_(data_dirs) {}

  RunScenario map() {
    result_.faults = run_.faults;
    model_ = model_of(run_, data_dirs_, result_.faults);
    require_numbers();
    check_hardware();
    if (!result_.faults.empty()) return std::move(result_);
    result_.assumptions = model_.assumptions;
    moe_ = model_.arch.moe_layer_count() > 0;
    settle_framework();
    std::string sections;  // one by one: each may add to the assumptions
    for (const auto section : {&Mapper::parallel, &Mapper::training, &Mapper::optimizer, &Mapper::memory,
                               &Mapper::experts, &Mapper::routing}) {
      sections += (this->*section)();
    }
    if (!result_.faults.empty() || !result_.missing.empty()) return std::move(result_);
    result_.yaml = head() + model() +
                   fmt::format("cluster: {{ hardware: {}, gpus: {}{} }}\n", run_.gpu, *run_.gpus, library()) + sections;
    return std::move(result_);
  }

 private:
  void fault(std::string_view column, std::string message, std::string hint = {}) {
    result_.faults.push_back({run_.place(column), std::move(message), std::move(hint), {}});
  }
  void assume(std::string text) { result_.assumptions.push_back(std::move(text)); }
  bool fault_at(std::string_view column) const {
    return std::any_of(result_.faults.begin(), result_.faults.end(),
                       [&](const base::Fault& fault) { return fault.where.key == column; });
  }

  void require_numbers() {
    for (const char* column : {"gpus", "gbs", "seq_len"}) {
      const bool stated = std::string_view(column) == "gpus"  ? run_.gpus.has_value()
                          : std::string_view(column) == "gbs" ? run_.gbs.has_value()
                                                              : run_.seq_len.has_value();
      if (!stated && !fault_at(column)) fault(column, "expected a whole number >= 1, got an empty cell");
    }
  }

  void check_hardware() {
    const std::vector<std::string> names = config::Catalogue("hw_profiles", data_dirs_).names();
    if (std::find(names.begin(), names.end(), run_.gpu) != names.end()) return;
    fault("gpu",
          run_.gpu.empty() ? "expected a hardware profile, got an empty cell"
                           : "unknown hardware profile '" + run_.gpu + "'",
          base::nearest_hint(run_.gpu, names));
  }

  std::string head() const {
    std::string text = fmt::format("# Row {} of a table of measured runs.\n", run_.id);
    if (!result_.assumptions.empty()) text += "# Not stated there, and assumed:\n";
    for (const std::string& line : result_.assumptions) text += "#   " + line + "\n";
    return text;
  }

  std::string model() const {
    if (!model_.id.empty()) return "model: " + model_.id + "\n";
    std::string text = "model:\n  ";
    for (std::size_t i = 0; i < model_.yaml.size(); ++i) {
      text += model_.yaml[i];
      if (model_.yaml[i] == '\n' && i + 1 < model_.yaml.size()) text += "  ";
    }
    return text;
  }

  void settle_framework() {
    torchtitan_ = run_.framework == "torchtitan" || run_.framework == "automodel";
    if (!torchtitan_ && run_.framework != "megatron" && run_.framework != "primus") {
      assume("framework " + (run_.framework.empty() ? "not stated" : "'" + run_.framework + "'") +
             ": simulated as megatron");
    }
  }

  // NeMo Automodel runs Transformer Engine's attention where torchtitan runs PyTorch's own.
  std::string library() const { return run_.framework == "automodel" ? ", kernel_library: none" : ""; }

  std::int64_t stages() const { return run_.pp.value_or(1) * run_.vpp.value_or(1); }

  std::string parallel() {
    Section section("parallel");
    const std::int64_t tp = run_.tp.value_or(1);
    section.add("tensor_model_parallel_size", tp);
    section.add("pipeline_model_parallel_size", run_.pp.value_or(1));
    if (run_.vpp.value_or(1) > 1) section.add("virtual_pipeline_model_parallel_size", *run_.vpp);
    section.add("context_parallel_size", run_.cp.value_or(1));
    for (const auto& [column, value] : {std::pair("tp", run_.tp), std::pair("pp", run_.pp), std::pair("cp", run_.cp)}) {
      if (!value) assume(fmt::format("{}: 1", column));
    }
    if (moe_) {
      if (!run_.ep) assume("ep: 1");
      if (!run_.etp) assume(fmt::format("etp: {}, the tensor-parallel size, Megatron's default", tp));
      section.add("expert_model_parallel_size", run_.ep.value_or(1));
      section.add("expert_tensor_parallel_size", run_.etp.value_or(tp));
    } else if (run_.ep.value_or(1) != 1) {
      fault("ep", fmt::format("a model without experts has no expert parallelism, got {}", *run_.ep));
    }
    divide_layers(section);
    return section.text();
  }

  // Where layers do not divide evenly and no layout string is stated, embedding and loss count as one layer each.
  void divide_layers(Section& section) {
    if (!run_.pp_layout.empty()) {
      section.add("pipeline_model_parallel_layout", "\"" + run_.pp_layout + "\"");
      if (run_.derived.find("pp_layout assumed") != std::string::npos) assume("pp_layout: as the row assumes it");
      return;
    }
    const std::int64_t layers = model_.arch.layer_count();
    if (run_.pp.value_or(1) > kMostStages || run_.vpp.value_or(1) > kMostStages || layers % stages() == 0) return;
    if ((layers + 2) % stages() == 0) {
      section.add("account_for_embedding_in_pipeline_split", "true");
      section.add("account_for_loss_in_pipeline_split", "true");
      assume(fmt::format("{} layers over {} stages: embedding and loss count as one layer each", layers, stages()));
      return;
    }
    // Megatron-Bridge's layouts of DeepSeek-V3: every stage as many layers as fit, those that are left on the last.
    if (model_.arch.id.starts_with("deepseek-v3") || model_.arch.id.starts_with("kimi-k2")) {
      const std::int64_t n = stages(), each = (layers + n - 1) / n;
      // Where the last would be left without any, the first has fewer.
      const bool first_shorter = layers - (n - 2) * each >= 1 && n * each - layers >= each;
      std::string text = "E";
      const std::int64_t first = first_shorter ? layers - (n - 2) * each : each;
      std::int64_t left = layers - first;
      text += std::string(static_cast<std::size_t>(first), 't');
      for (std::int64_t stage = 1; stage < n; ++stage) {
        const std::int64_t here = std::min(each, left);
        text += "|" + std::string(static_cast<std::size_t>(here), 't');
        left -= here;
      }
      if (left == 0) {
        text += (model_.arch.mtp_layers > 0 ? "mL" : "L");
        section.add("pipeline_model_parallel_layout", "\"" + text + "\"");
        assume("pp_layout: " + text + ", as Megatron-Bridge divides these models");
        return;
      }
    }
    result_.missing = fmt::format(
        "pp_layout is not stated, and neither {} layers nor {} (with embedding and loss) divide by pp x vpp = {}",
        layers, layers + 2, stages());
  }

  std::string training() {
    Section section("training");
    // Megatron's proxies of DeepSeek state an fp8 recipe and no --bf16.
    if (is_test() && from("/deepseek_proxy") && run_.precision.starts_with("fp8")) {
      result_.missing =
          "precision: parameters and activations in fp32 beside fp8 products (no --bf16 in the test's "
          "model_config.yaml) are not supported in this version";
    }
    if (!run_.mbs) assume("mbs: 1");
    section.add("micro_batch_size", run_.mbs.value_or(1));
    section.add("global_batch_size", *run_.gbs);
    section.add("seq_length", *run_.seq_len);
    const std::string schedule = run_.schedule.empty() && of_deepseek_report() ? "dualpipe" : run_.schedule;
    if (!schedule.empty()) section.add("schedule", schedule);
    if (schedule != run_.schedule) assume("schedule: dualpipe, as the report of the run describes");
    if (run_.precision.empty()) assume("precision: bf16");
    if (!run_.precision.empty() && run_.precision != "bf16") section.add("precision", run_.precision);
    if (torchtitan_) section.add("framework", "torchtitan");
    compiled(section);
    loss_fusion(section);
    attention(section);
    if (is_gpt2_test()) {
      section.add("bias_activation_fusion", "false");
      assume("activations: not fused, as Megatron's functional tests run them");
      if (!from("scoped_cudagraph")) {
        section.add("hidden_dropout", "0.1");
        assume("hidden_dropout: 0.1, Megatron's default");
      }
    }
    fp8_parameters(section);
    if (captures_iteration()) {
      section.add("cuda_graph_impl", "full_iteration");
      assume("cuda_graph: full_iteration, as recipes of Megatron-Bridge in mxfp8 for Grace hosts set it from 26.06 on");
    } else if (!run_.cuda_graph.empty() && run_.cuda_graph != "none") {
      section.add("cuda_graph_impl", run_.cuda_graph);
      section.add_list("cuda_graph_scope", run_.cuda_graph_scope);
    } else if (run_.cuda_graph.empty() && moe_ && from("Megatron-Bridge") && run_.gpu.starts_with("gb")) {
      // Rows of this source that state them have graphs on Grace hosts, of these modules or more.
      section.add("cuda_graph_impl", "transformer_engine");
      section.add_list("cuda_graph_scope", {"attn", "moe_router", "moe_preprocess"});
      assume("cuda_graph: attn, moe_router, moe_preprocess, as recipes of Megatron-Bridge for Grace hosts set it");
    }
    if (run_.tp_comm_overlap.value_or(false)) section.add("tp_comm_overlap", "true");
    const bool overlaps = run_.grad_overlap.value_or(from("Megatron-Bridge"));
    if (overlaps) {
      section.add("overlap_grad_reduce", "true");
      section.add("overlap_param_gather", "true");
    }
    if (overlaps && !run_.grad_overlap) {
      assume("gradients are reduced and parameters gathered beside the layers, as recipes of Megatron-Bridge do");
    }
    return section.text();
  }

  // What recipes of Megatron-Bridge set for MoE models and a row of theirs leaves open (NVIDIA-NeMo/Megatron-Bridge,
  // scripts/performance/configs, 0fa501ac of autumn 2025 to 04264182): from 26.06 on mxfp8 on Grace hosts captures the
  // iteration, sends by hybridep and overlaps exchanges; DeepSeek-V3 sends by the flex dispatcher everywhere, and
  // Qwen3-235B on H100 overlaps exchanges.
  bool captures_iteration() const {
    constexpr int kFrom = 2606;
    return run_.cuda_graph.empty() && moe_ && from("Megatron-Bridge") && run_.gpu.starts_with("gb") &&
           run_.precision == "mxfp8" && release_month() >= kFrom;
  }
  std::string recipe_dispatcher() const {
    constexpr int kHybridFrom = 2511;
    if (!from("Megatron-Bridge")) return "";
    if (captures_iteration()) return "hybridep";
    const bool flex = run_.model.starts_with("deepseek-v3");
    return !flex ? "" : release_month() >= kHybridFrom ? "hybridep" : "deepep";
  }
  bool recipe_overlaps_exchanges() const {
    if (run_.ep_overlap || !from("Megatron-Bridge")) return false;
    return captures_iteration() || (run_.model == "qwen3-235b-a22b" && run_.gpu == "h100-sxm");
  }

  bool notes_say(std::string_view words) const { return run_.notes.find(words) != std::string::npos; }

  // "NeMo 26.06.01" and "2026-06-30" are 2606; 0 where the release is not told by its month.
  int release_month() const {
    const std::string& release = run_.release;
    const bool nemo = release.starts_with("NeMo ");
    const std::size_t year = nemo ? 5 : 2;
    if (!nemo && !release.starts_with("20")) return 0;
    const auto two = [&](std::size_t at) {
      const bool digits = at + 2 <= release.size() && std::isdigit(static_cast<unsigned char>(release[at])) != 0 &&
                          std::isdigit(static_cast<unsigned char>(release[at + 1])) != 0;
      return digits ? (release[at] - '0') * 10 + (release[at + 1] - '0') : 0;
    };
    return two(year) * 100 + two(year + 3);
  }

  // DeepSeek-V3's own training (arXiv 2412.19437, section 3.2): DualPipe, and kernels that send a token once to a node.
  bool of_deepseek_report() const { return from("2412.19437"); }

  bool from(std::string_view source) const { return run_.source.find(source) != std::string::npos; }

  bool is_test() const { return from("tests/functional_tests/test_cases/moe/"); }
  bool is_gpt2_test() const { return is_test() && model_.arch.mlp == model::MlpKind::gelu; }

  // Megatron-Bridge's recipes of these two keep parameters in fp8 (mixed_precision.py).
  void fp8_parameters(Section& section) {
    const bool recipe =
        from("Megatron-Bridge") && (run_.precision == "fp8_tensorwise" || run_.precision == "mxfp8") && !torchtitan_;
    if (!recipe) return;
    section.add("fp8_param_gather", "true");
    assume("fp8_param_gather: true, as recipes of Megatron-Bridge set it");
  }

  // Megatron's functional tests of MoE models run attention unfused (`--attention-backend unfused` in their
  // model_config.yaml) but where they resume from a checkpoint, capture graphs, divide parameters or the sequence;
  // those of GPT-2's shape keep Megatron's dropout of 0.1.
  void attention(Section& section) {
    if (!is_test() || from("_resume_") || from("cudagraph") || from("_fsdp") || run_.cp.value_or(1) > 1) return;
    section.add("attention_backend", "unfused");
    const bool gpt2 = model_.arch.mlp == model::MlpKind::gelu;
    if (gpt2) section.add("attention_dropout", "0.1");
    assume(gpt2 ? "attention: unfused, with dropout, as Megatron's functional tests run it"
                : "attention: unfused, as Megatron's functional tests run it");
  }

  // Whether modules were compiled is no column. float8 products need it; NeMo Automodel's MoE models run Transformer
  // Engine's norms. PyTorch has one kernel for a norm from the middle of 2025 on.
  void compiled(Section& section) {
    if (!torchtitan_) return;
    const bool fp8 = run_.precision.starts_with("fp8");
    if (fp8 || (run_.framework == "automodel" && moe_)) {
      section.add("compile", "true");
      assume(fp8 ? "compile: true, as torchtitan's float8 products need"
                 : "compile: true, for the fused kernels of Automodel's MoE modules");
    } else {
      assume("compile: false, torchtitan's default");
      if (run_.release < "2025-07") {
        section.add("rms_norm_fusion", "false");
        assume("norms: operator by operator, as PyTorch ran them before 2.9");
      }
    }
  }

  // No column has it. Notes may say it; the GPT-2 recipes in Megatron's own tests leave Megatron's default, off. The
  // rungs of Primus' optimisation ladder before "+loss fusion" are called "base".
  void loss_fusion(Section& section) {
    if (notes_say("fused cross-entropy yes")) return;
    // Its float8 products need torch.compile, which since 2025 takes the loss too.
    if (torchtitan_) {
      const bool compiled = run_.release >= "2025" && run_.precision.starts_with("fp8");
      section.add("cross_entropy_loss_fusion", compiled ? "true" : "false");
      if (compiled) assume("cross-entropy: compiled, as torchtitan does with float8 products from 2025 on");
      return;
    }
    if (from("Megatron-Bridge")) {
      section.add("cross_entropy_fusion_impl", "te");
      assume("cross-entropy: Transformer Engine's, in place, as recipes of Megatron-Bridge set it");
      return;
    }
    const bool gpt2 = run_.model == "arch" && model_.arch.mlp == model::MlpKind::gelu;
    const bool base = run_.framework == "primus" && notes_say(" base;");
    if (!gpt2 && !base && !notes_say("fused cross-entropy no")) return;
    section.add("cross_entropy_loss_fusion", "false");
    if (gpt2) assume("cross-entropy: not fused, Megatron's default");
  }

  std::string optimizer() {
    Section section("optimizer");
    // Muon with divided states is Megatron's dist_muon.
    const bool muon = run_.optimizer == "muon";
    const std::string usual = torchtitan_ ? "fsdp2" : "zero1";
    if (muon)
      section.add("kind", run_.sharding == "ddp" ? "muon" : "dist_muon");
    else if (!run_.optimizer.empty() && run_.optimizer != "adam")
      section.add("kind", run_.optimizer);
    if (is_gpt2_test()) {
      section.add("gradient_accumulation_fusion", "false");
      assume("gradient_accumulation_fusion: false, as Megatron's functional tests set it");
    }
    if (run_.sharding.empty()) assume("sharding: " + usual);
    const std::string sharding = run_.sharding.empty() ? usual : run_.sharding;
    if (sharding != "zero1") section.add("sharding", sharding);
    // torchtitan divides over its context-parallel ranks too: its data_parallel_shard_degree counts without them.
    if (run_.shard_group) {
      const std::int64_t ranks =
          std::min(*run_.shard_group, kMostStages) * (torchtitan_ ? std::min(run_.cp.value_or(1), kMostStages) : 1);
      if (!is_whole_group(ranks)) section.add("shard_group", ranks);
    }
    const std::string gradients = recipe_type(run_.main_grads_dtype, "main_grads_dtype", from("Megatron-Bridge"));
    if (gradients != "fp32") section.add("main_grads_dtype", gradients);
    // Recipes of models with DeepSeek-V3's layers.
    const bool narrow_moments = from("Megatron-Bridge") && model_.arch.attention.kind == model::AttentionKind::mla;
    const std::string moments = recipe_type(run_.moments_dtype, "moments_dtype", narrow_moments);
    if (moments != "fp32") {
      section.add("exp_avg_dtype", moments);
      section.add("exp_avg_sq_dtype", moments);
    }
    if (!run_.grad_reduce_dtype.empty() && run_.grad_reduce_dtype != "fp32") {
      section.add("grad_reduce_dtype", run_.grad_reduce_dtype);
    }
    return section.text();
  }

  // A type that the row states, else bf16 where the recipes of its source set it (Megatron-Bridge: bf16_mixed without
  // grad_reduce_in_fp32; precision-aware optimizer).
  std::string recipe_type(const std::string& stated, const char* column, bool bf16) {
    if (!stated.empty()) return stated;
    if (bf16) assume(fmt::format("{}: bf16, as recipes of Megatron-Bridge set it", column));
    return bf16 ? "bf16" : "fp32";
  }

  // The data-parallel ranks with their context-parallel ones: what states are sharded over unless it is stated.
  bool is_whole_group(std::int64_t ranks) const {
    const std::int64_t others = std::min(run_.tp.value_or(1), kMostStages) * std::min(run_.pp.value_or(1), kMostStages);
    return ranks == *run_.gpus / others;
  }

  // A peak over all iterations of one of Megatron's tests, which train a new model for 50 to 100.
  bool cumulative() const {
    return moe_ && run_.routing == "natural" && is_test() && run_.memory_scope.find("cumulative") != std::string::npos;
  }

  std::string memory() {
    Section section("memory");
    if (run_.recompute.empty()) assume(kNoRecomputation);
    if (is_test()) {
      section.add("cublas_workspace_config", "\":4096:8\"");
      assume("CUBLAS_WORKSPACE_CONFIG: :4096:8, as Megatron's functional tests set it");
    }
    const std::vector<std::string>& modules = run_.recompute_modules;
    const auto has = [&](const char* word) { return std::find(modules.begin(), modules.end(), word) != modules.end(); };
    const bool method = has("uniform") || has("block");
    if (!run_.recompute.empty() && run_.recompute != "none") section.add("recompute_granularity", run_.recompute);
    if (run_.recompute == "full") {
      if (!modules.empty() && !(method && modules.size() == 1)) {
        fault("recompute_modules", "full recomputation is uniform or block, and has no modules");
      }
      if (has("block")) section.add("recompute_method", "block");
      if (run_.recompute_layers.value_or(1) > 1 || has("block")) {
        section.add("recompute_num_layers", run_.recompute_layers.value_or(1));
      }
    } else if (!modules.empty() && (method || run_.recompute != "selective")) {
      fault("recompute_modules", "modules belong to selective recomputation, uniform and block to full");
    } else {
      section.add_list("recompute_modules", modules);
    }
    section.add_list("offload_modules", run_.offload_modules);
    section.add("usable_fraction", "1.0");
    return section.text();
  }

  std::string experts() {
    const bool dispatches = !run_.dispatcher.empty() && run_.dispatcher != "none";
    if (!moe_) {
      if (dispatches) fault("dispatcher", "a model without experts has none, got '" + run_.dispatcher + "'");
      return "";
    }
    if (run_.dispatcher == "none") fault("dispatcher", "a model with experts has one, got 'none'");
    Section section("moe");
    const bool kernels = !dispatches && of_deepseek_report();
    const std::string recipes = dispatches || kernels ? "" : recipe_dispatcher();
    if (kernels) section.add("dispatcher", "deepep");
    if (!recipes.empty()) section.add("dispatcher", recipes);
    if (!recipes.empty())
      assume(fmt::format("dispatcher: {}, as recipes of Megatron-Bridge set it", recipes));
    else if (!dispatches)
      assume(kernels ? "dispatcher: deepep, the kernels that the report of the run describes" : "dispatcher: alltoall");
    if (dispatches && run_.dispatcher != "alltoall") section.add("dispatcher", run_.dispatcher);
    // Recipes state it whatever the dispatcher; the others leave the copies to the collectives.
    const bool has_kernels = run_.dispatcher == "deepep" || run_.dispatcher == "hybridep";
    if (run_.dispatcher_sms && has_kernels) section.add("dispatcher_sms", *run_.dispatcher_sms);
    const bool overlaps = recipe_overlaps_exchanges();
    if (overlaps) assume("ep_overlap: on, as this recipe of Megatron-Bridge sets it");
    if (overlaps || run_.ep_overlap.value_or(false)) section.add("overlap_moe_expert_parallel_comm", "true");
    if (run_.delayed_wgrad.value_or(false)) section.add("delay_wgrad_compute", "true");
    if (!run_.permute_fusion.value_or(true)) section.add("permute_fusion", "false");
    constexpr int kFuserRelease = 2606;  // the recipes of 26.06 have it
    if (from("Megatron-Bridge") && (run_.cuda_graph == "full_iteration" || captures_iteration()) &&
        run_.precision == "mxfp8" && release_month() >= kFuserRelease) {
      section.add("use_transformer_engine_op_fuser", "true");
      assume("use_transformer_engine_op_fuser: as recipes of Megatron-Bridge with a graph of the iteration set it");
    }
    // Megatron's functional tests of these names state no --moe-grouped-gemm.
    if (is_test() && from("experts2parallel") && !from("groupedGEMM") && !from("top2router")) {
      section.add("grouped_gemm", "false");
      assume("grouped_gemm: false, as Megatron's functional tests of this name run");
    }
    capacity(section);
    return section.text();
  }

  // With the paged stash the factor sizes the buffers of a rank; else it is the capacity of an expert, of which pairs
  // beyond are dropped.
  void capacity(Section& section) {
    if (run_.paged_stash.value_or(false)) {
      section.add("paged_stash", "true");
      if (run_.capacity_factor) section.add("expert_rank_capacity_factor", fmt::format("{}", *run_.capacity_factor));
      return;
    }
    const bool drops = run_.routing == "drop";
    if (!run_.capacity_factor && !drops) return;
    if (!run_.capacity_factor) assume("capacity_factor: 1, with dropping");
    section.add("policies", fmt::format("{{ capacity: {{ factor: {}, pad: {} }} }}", run_.capacity_factor.value_or(1.0),
                                        notes_say("padded to capacity") ? "true" : "false"));
  }

  std::string routing() {
    if (!moe_) {
      if (!run_.routing.empty() && run_.routing != "dense") {
        fault("routing", "a model without experts routes nothing, got '" + run_.routing + "'");
      }
      return "";
    }
    if (run_.routing == "dense") fault("routing", "a model with experts routes, got 'dense'");
    if (run_.routing == "natural" || run_.routing == "drop") {
      if (cumulative()) {
        result_.iterations = kDraws;
        assume(
            fmt::format("routing: log-normal shares with sigma {}, drawn anew in each of {} iterations (--iterations "
                        "{}): the peak is "
                        "that of a whole run of a new model, whose router has not settled",
                        kNaturalSigma, kDraws, kDraws));
        return fmt::format("routing: {{ lognormal: {{ sigma: {}, seed: 1, draws: {} }} }}\n", kNaturalSigma, kDraws);
      }
      const double sigma = model_.arch.moe.experts <= kFewExperts ? kFewExpertsSigma : kNaturalSigma;
      assume(
          fmt::format("routing: log-normal shares with sigma {}, the level of training with an auxiliary loss", sigma));
      return fmt::format("routing: {{ lognormal: {{ sigma: {}, seed: 1 }} }}\n", sigma);
    }
    if (run_.routing.empty()) assume("routing: balanced");
    return "routing: { balanced: true }\n";
  }

  static constexpr std::int64_t kMostStages = std::int64_t{1} << 20;  // products stay exact; scenarios allow fewer

  const Run& run_;
  const std::vector<std::string>& data_dirs_;
  RunModel model_;
  RunScenario result_;
  bool moe_ = false, torchtitan_ = false;
};

}  // namespace

RunScenario scenario_of(const Run& run, const std::vector<std::string>& data_dirs) {
  return Mapper(run, data_dirs).map();
}

}  // namespace moeplan::runs
