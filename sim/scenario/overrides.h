#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/document.h"

// --set: values that stand in for those of the scenario file, the model file or the hardware profile.
namespace moeplan::scenario {

// One override with its key resolved.
struct Override {
  std::string path;    // inside its own document: "parallel.tensor_model_parallel_size", or "vocab_size" of the model
  std::string value;   // YAML text
  std::string origin;  // "--set tp=2": the file that places name
};

struct Overrides {
  std::vector<Override> scenario, model, hardware;  // each in the order given
};

// A double-quoted YAML text; control characters are left out.
std::string quoted(const std::string& text);

// Sorts them by document; an unknown key is a fault.
Overrides sort_overrides(const std::vector<std::pair<std::string, std::string>>& given, base::Faults& faults);

// In order, each under the name (or short name) that the file itself uses, so that it replaces and never doubles a key.
// memfine.chunks and memfine.bins also set the rule they belong to, unless the rule is set too.
config::Node with_scenario_overrides(config::Node root, const std::vector<Override>& overrides, base::Faults& faults);

config::Node with_model_overrides(config::Node root, const std::vector<Override>& overrides, base::Faults& faults);

// A bare value replaces `value` of an entry, whose evidence becomes "assumed" and whose source the option.
config::Node with_hardware_overrides(config::Node root, const std::vector<Override>& overrides, base::Faults& faults);

}  // namespace moeplan::scenario
