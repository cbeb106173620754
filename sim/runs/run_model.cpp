#include "runs/run_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/nearest.h"
#include "config/data.h"
#include "model/import_hf.h"
#include "model/layer_pattern.h"

namespace moeplan::runs {
namespace {

using model::Architecture;
using model::LayerKind;

constexpr std::int64_t kMostOfAnything = std::int64_t{1} << 24;
constexpr std::int64_t kGpt2Vocabulary = 50257;

// The words of the cell: "key=value" and bare flags.
class ArchWords {
 public:
  ArchWords(const Run& run, std::vector<base::Fault>& faults) : where_(run.place("arch")), faults_(faults) {
    std::size_t at = 0;
    while (at < run.arch.size()) {
      const std::size_t end = std::min(run.arch.find(' ', at), run.arch.size());
      const std::string word = run.arch.substr(at, end - at);
      at = end + 1;
      if (word.empty()) continue;
      const std::size_t equals = word.find('=');
      const std::string key = word.substr(0, equals);
      if (!words_.emplace(key, equals == std::string::npos ? "" : word.substr(equals + 1)).second) {
        fault("'" + key + "' stands twice");
      }
    }
  }

  bool flag(const std::string& key) {
    known_.push_back(key);
    return words_.contains(key);
  }
  std::optional<std::string> text(const std::string& key) {
    known_.push_back(key);
    const auto word = words_.find(key);
    return word == words_.end() ? std::nullopt : std::optional<std::string>(word->second);
  }
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t least = 1) {
    const std::optional<std::string> written = text(key);
    if (!written) return std::nullopt;
    std::int64_t value = 0;
    const char* end = written->data() + written->size();
    const auto [stop, failed] = std::from_chars(written->data(), end, value);
    if (failed == std::errc{} && stop == end && value >= least && value <= kMostOfAnything) return value;
    fault(fmt::format("{}: expected a whole number from {} to {}, got '{}'", key, least, kMostOfAnything, *written));
    return std::nullopt;
  }
  std::int64_t required(const std::string& key) {
    if (!words_.contains(key)) fault("'" + key + "' is not stated");
    return integer(key).value_or(1);
  }
  void fault(const std::string& message, const std::string& hint = {}) {
    faults_.push_back({where_, message, hint, {}});
  }
  void finish() {
    for (const auto& [key, value] : words_) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      fault("unknown word '" + key + "'", base::nearest_hint(key, known_));
    }
  }

 private:
  base::Where where_;
  std::vector<base::Fault>& faults_;
  std::map<std::string, std::string> words_;
  std::vector<std::string> known_;
};

void read_attention(ArchWords& words, Architecture& arch) {
  model::Attention& a = arch.attention;
  a.heads = words.required("heads");
  const std::int64_t head_dim = words.integer("hd").value_or(std::max<std::int64_t>(1, arch.hidden / a.heads));
  const bool grouped = words.flag("group-query-attention");
  const std::optional<std::int64_t> groups = words.integer("kv");
  a.kv_heads = grouped && groups ? *groups : a.heads;
  const std::optional<std::int64_t> q_rank = words.integer("q_lora"), kv_rank = words.integer("kv_lora");
  if (!words.flag("multi-latent-attention")) {
    a.head_dim = head_dim;
    if (q_rank || kv_rank) words.fault("ranks of latent attention without 'multi-latent-attention'");
    return;
  }
  a.kind = model::AttentionKind::mla;
  a.kv_heads = a.heads;
  a.q_lora_rank = q_rank.value_or(0);
  a.kv_lora_rank = kv_rank.value_or(32);  // these four: Megatron's arguments
  a.qk_nope_dim = 128;
  a.qk_rope_dim = 64;
  a.v_head_dim = 128;
}

void read_experts(ArchWords& words, Architecture& arch) {
  const std::optional<std::int64_t> experts = words.integer("E"), top_k = words.integer("topk");
  const std::optional<std::int64_t> width = words.integer("moe_ffn"), shared = words.integer("shared");
  const std::optional<std::string> frequency = words.text("moe_freq");
  if (!experts) {
    if (top_k || width || shared || frequency) words.fault("words of experts without their number 'E'");
    return;
  }
  arch.moe.experts = *experts;
  arch.moe.top_k = top_k.value_or(2);  // Megatron's default
  arch.moe.ffn = width.value_or(arch.dense_ffn);
  arch.moe.shared_ffn = shared.value_or(0);
  if (!frequency) {
    std::fill(arch.layers.begin(), arch.layers.end(), LayerKind::moe);
  } else {
    const model::FrequencyPattern pattern = model::parse_frequency_pattern(*frequency, "0 or 1");
    if (!pattern.error.empty()) return words.fault("moe_freq: " + pattern.error);
    if (pattern.values.size() != arch.layers.size()) {
      return words.fault(
          fmt::format("moe_freq: expected {} entries, one a layer, got {}", arch.layers.size(), pattern.values.size()));
    }
    for (std::size_t i = 0; i < arch.layers.size(); ++i) {
      if (pattern.values[i] == 1) arch.layers[i] = LayerKind::moe;
    }
  }
  if (arch.moe_layer_count() == arch.layer_count()) arch.dense_ffn = 0;
}

// The whole shape. Recipes that state SwiGLU are those of today's models: RMSNorm and rotary positions; the others are
// GPT-2's: LayerNorm, GELU, learned positions. Neither has biases in its linear layers: grouped experts take none.
Architecture read_shape(const Run& run, std::vector<base::Fault>& faults, std::vector<std::string>& assumptions) {
  ArchWords words(run, faults);
  Architecture arch;
  arch.id = run.id;
  arch.title = run.id;
  arch.source = "the cell arch of row " + run.id;
  const std::int64_t layers = words.required("L");
  if (layers > model::kMaxLayers) {
    words.fault(fmt::format("L: expected at most {}, got {}", model::kMaxLayers, layers));
    return arch;
  }
  arch.layers.assign(static_cast<std::size_t>(layers), LayerKind::dense);
  arch.hidden = words.required("h");
  const bool gated = words.flag("swiglu");
  arch.mlp = gated ? model::MlpKind::swiglu : model::MlpKind::gelu;
  // Megatron's own default: 4 h, for SwiGLU two thirds of it in multiples of 64.
  arch.dense_ffn = words.integer("ffn").value_or(gated ? std::max<std::int64_t>(64, arch.hidden * 8 / 3 / 64 * 64)
                                                       : 4 * arch.hidden);
  arch.tied_embeddings = !words.flag("untie-embeddings-and-output-weights");
  arch.vocab = words.integer("vocab").value_or(kGpt2Vocabulary);
  arch.vocab_divisor = words.integer("vocab_div").value_or(128);
  arch.layer_norm_bias = !gated;
  const std::optional<std::int64_t> positions = words.integer("maxpos");
  if (!gated) arch.learned_positions = positions.value_or(run.seq_len.value_or(1));
  read_attention(words, arch);
  read_experts(words, arch);
  arch.mtp_layers = words.integer("mtp", 0).value_or(0);
  words.finish();
  assumptions.push_back(gated ? "arch: RMSNorm, rotary positions, no biases, as recipes with SwiGLU have it"
                              : "arch: GELU, LayerNorm, learned positions, no biases, as the GPT-2 recipes have it");
  return arch;
}

// "layers=12 dense_layers=12": the first layers are dense, the others have experts. Published figures are those of the
// whole model.
void change_layers(const Run& run, Architecture& arch, std::vector<base::Fault>& faults) {
  ArchWords words(run, faults);
  const std::size_t before = faults.size();
  const std::int64_t layers = words.integer("layers").value_or(arch.layer_count());
  const std::optional<std::int64_t> dense = words.integer("dense_layers", 0);
  const std::optional<std::int64_t> mtp = words.integer("mtp", 0);
  words.finish();
  if (faults.size() != before) return;
  if (layers > model::kMaxLayers || dense.value_or(0) > layers) {
    words.fault(fmt::format("expected at most {} layers, and not more dense ones, got layers={} dense_layers={}",
                            model::kMaxLayers, layers, dense.value_or(0)));
    return;
  }
  const LayerKind last = arch.layers.back();
  const std::int64_t window = arch.window(arch.layers.size() - 1);
  if (!arch.windows.empty()) arch.windows.resize(static_cast<std::size_t>(layers), window);
  arch.layers.resize(static_cast<std::size_t>(layers), last);
  if (dense) {
    const auto border = arch.layers.begin() + *dense;
    std::fill(arch.layers.begin(), border, LayerKind::dense);
    std::fill(border, arch.layers.end(), LayerKind::moe);
  }
  if (mtp) arch.mtp_layers = *mtp;
  const std::int64_t experts = arch.moe_layer_count();
  if (experts > 0 && arch.moe.experts == 0) words.fault("'" + run.model + "' has no experts: all its layers are dense");
  if (experts < layers && arch.dense_ffn == 0) words.fault("'" + run.model + "' has no dense layers");
  if (experts == 0) arch.moe = {};
  if (experts == layers) arch.dense_ffn = 0;
  arch.published = {};
  arch.id = fmt::format("{}-{}l", run.model, layers);
  arch.title = arch.id;
  arch.source = "row " + run.id + ": " + run.model + " with " + run.arch;
}

// Shapes that a source gives a model of a known name, other than the published ones.
void take_source_shape(const Run& run, RunModel& result) {
  if (run.model == "llama3.1-405b" && run.source.find("SimuMax") != std::string::npos) {
    result.arch.attention.kv_heads = 16;
    result.assumptions.push_back("num_query_groups: 16, as configs/models/llama3-405b.json of this source has it");
  }
}

// The checks of a model file, so that what is wrong is found at the cell.
void check_shape(const Run& run, RunModel& result, std::vector<base::Fault>& faults) {
  base::Faults found;
  result.yaml = model::model_yaml(result.arch);
  const config::Node root = config::parse_yaml(result.yaml, "arch");
  result.arch = model::read_architecture(root, result.arch.id, found);
  if (found.empty()) return;
  try {
    found.throw_if_any();
  } catch (const base::Error& error) {
    for (const base::Fault& fault : error.faults()) {
      faults.push_back({run.place("arch"), fault.where.key + ": " + fault.message, fault.hint, {}});
    }
  }
}

}  // namespace

RunModel model_of(const Run& run, const std::vector<std::string>& data_dirs, std::vector<base::Fault>& faults) {
  RunModel result;
  const std::size_t before = faults.size();
  if (run.model.empty()) {
    faults.push_back({run.place("model"), "expected a model, got an empty cell", {}, {}});
    return result;
  }
  // Runs of Megatron's own tests name the model beside a shape of their own, with another vocabulary.
  if (run.model == "arch" || run.arch.starts_with("L=") || run.arch.find(" L=") != std::string::npos) {
    result.arch = read_shape(run, faults, result.assumptions);
    if (faults.size() == before) check_shape(run, result, faults);
    return result;
  }
  try {
    const config::Catalogue catalogue("models", data_dirs);
    const std::vector<std::string> names = catalogue.names();
    // A table names models of the catalogue: no path of some other machine.
    if (std::find(names.begin(), names.end(), run.model) == names.end()) {
      faults.push_back(
          {run.place("model"), "unknown model '" + run.model + "'", base::nearest_hint(run.model, names), {}});
      return result;
    }
    base::Faults found;
    result.arch = model::read_architecture(catalogue.load(run.model, "", run.place("model")), run.model, found);
    found.throw_if_any();
  } catch (const base::Error& error) {
    faults.insert(faults.end(), error.faults().begin(), error.faults().end());
    return result;
  }
  if (run.arch.empty()) {
    result.id = run.model;
    return result;
  }
  change_layers(run, result.arch, faults);
  take_source_shape(run, result);
  if (faults.size() == before) check_shape(run, result, faults);
  return result;
}

}  // namespace moeplan::runs
