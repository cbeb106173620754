#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/document.h"
#include "config/reader.h"
#include "model/architecture.h"

// What the readers of the families of config.json share. For the sources of this folder only.
namespace moeplan::model {

// The fields of one config.json. As config::Reader, but null is the same as absent, and keys that nobody asked for are
// handed out instead of being faults.
class HfFields {
 public:
  HfFields(const config::Node& root, base::Faults& faults) : root_(root), reader_(root, faults) {}

  bool given(std::string_view key);  // there and not null
  std::int64_t integer(std::string_view key);
  std::int64_t integer_or(std::string_view key, std::int64_t fallback);
  std::int64_t first_integer(std::string_view key, std::string_view other_key);  // whichever is given; `key` is missed
  std::int64_t step(std::string_view key);                // each so-many-th layer; 1 when not given, 0 is a fault
  double real_or(std::string_view key, double fallback);  // 0 or more
  bool flag_or(std::string_view key, bool fallback);
  std::string text_or(std::string_view key, const std::string& fallback);
  std::vector<std::string> texts(std::string_view key);
  std::vector<std::int64_t> integers(std::string_view key);
  void ignore(std::string_view key);
  void fault(std::string_view key, std::string message, std::string hint = {});
  base::Where where(std::string_view key) { return reader_.where(key); }
  base::Faults& faults() { return reader_.faults(); }
  std::vector<std::string> unread() const;  // keys that nobody asked for, in written order

 private:
  config::Node root_;
  config::Reader reader_;
  std::vector<std::string> asked_;
};

// Query, key and value heads of a family without latent attention. The head width is `head_dim`, else hidden / heads.
void read_heads(HfFields& fields, Architecture& arch);

// Layers by `mlp_layer_types` where given, else `first_k_dense_replace` dense ones and from there on each
// `moe_layer_freq`-th an MoE layer (all dense when the model has no experts).
void read_dense_first(HfFields& fields, Architecture& arch, bool has_experts);

// Windows from `layer_types` where given, else on the layers that `has_window` names; of width `sliding_window`.
void read_windows(HfFields& fields, Architecture& arch, const std::vector<bool>& has_window);
// Qwen: `use_sliding_window` gives the layers from `max_window_layers` on a window.
void read_qwen_windows(HfFields& fields, Architecture& arch);

// One reader a family; each fills what read_common (hidden size, vocabulary, layers, ties) leaves open.
void read_llama(HfFields& fields, Architecture& arch);
void read_mistral(HfFields& fields, Architecture& arch);
void read_qwen2(HfFields& fields, Architecture& arch);
void read_qwen3(HfFields& fields, Architecture& arch);
void read_qwen2_moe(HfFields& fields, Architecture& arch);
void read_qwen3_moe(HfFields& fields, Architecture& arch);
void read_mixtral(HfFields& fields, Architecture& arch);
void read_gpt_oss(HfFields& fields, Architecture& arch);
void read_olmoe(HfFields& fields, Architecture& arch);
void read_glm4_moe(HfFields& fields, Architecture& arch);
void read_deepseek(HfFields& fields, Architecture& arch);

}  // namespace moeplan::model
