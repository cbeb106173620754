#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

// From what starts a Megatron run, or what a run prints at its start, to a scenario file.
namespace moeplan::scenario {

struct MegatronSettings {
  std::string name;                   // of the model, where it is none that is shipped
  std::string model_file;             // how the scenario names that model's file
  std::string hardware = "h100-sxm";  // a profile: launch scripts do not say it
  std::int64_t gpus = 0;              // 0: from the launcher, the batch job or world_size
  std::int64_t vocabulary = 0;        // 0: from the options, else from a shipped model of the same shape
};

struct MegatronScenario {
  std::string scenario;               // YAML text
  std::string model;                  // YAML text of the model file; empty when the shape is that of a shipped model
  std::vector<base::Fault> warnings;  // what was not understood, or is not supported in this version
};

// `text` is a shell script, a list of arguments, or the dump between "---- arguments ----" and "end of arguments";
// `file` is what messages call it. Throws base::Error with places for what cannot be read (quotes that do not close,
// options without their value, a shape that no model file may have) and for what is missing.
MegatronScenario import_megatron(const std::string& text, const std::string& file, const MegatronSettings& settings);

}  // namespace moeplan::scenario
