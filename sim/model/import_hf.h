#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "config/document.h"
#include "model/architecture.h"

// Models from the config.json of a Hugging Face checkpoint, and model files from models.
namespace moeplan::model {

// True for a mapping that has the keys of a config.json (`architectures` or `model_type`) and not those of a model
// file.
bool looks_like_hf_config(const config::Node& root);

// The model that a config.json describes. Each field that changes the shape is used. Faults: an architecture that is
// not known, or known and not supported; a field or a value that changes the shape in a way that no model file
// expresses; a shape that no model file may have. Warnings: fields that nobody knows, each with its place. What is
// returned is complete only when no faults were added; its places (where_experts, ...) are those of the config.json.
Architecture import_hf(const config::Node& config_json, const std::string& name, base::Faults& faults,
                       std::vector<base::Fault>& warnings);

// Names of the architectures that import_hf knows ("LlamaForCausalLM", ...), in the order of its table.
std::vector<std::string> hf_architectures();

// The text of a model file that reads back as `arch` (its places aside): read_architecture's inverse.
std::string model_yaml(const Architecture& arch);

// The model file that a config.json stands for, so that whatever works on model files (--set model.KEY) works on it.
// A model file is returned as it is. Nothing when faults were added.
struct ModelFile {
  config::Node root;
  bool imported = false;
  base::Where where_experts, where_layers, where_top_k, where_hidden;  // in the config.json, when imported
};
ModelFile model_file(const config::Node& root, const std::string& name, base::Faults& faults,
                     std::vector<base::Fault>& warnings);

// The name of a model read from `path`: the file's without its ending, or its folder's for a "config.json".
std::string model_name_of(const std::string& path);

}  // namespace moeplan::model
