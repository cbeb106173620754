#pragma once
#include <string>
#include <vector>

#include "model/architecture.h"
#include "runs/run_table.h"

namespace moeplan::runs {

struct RunModel {
  model::Architecture arch;
  // How a scenario names it: an id where the row changes nothing of that model, else empty, and `yaml` holds the
  // content of a model file.
  std::string id, yaml;
  std::vector<std::string> assumptions;
};

// The model of a row: the cell `model`, with what `arch` changes of it ("layers=12 dense_layers=12"), or the whole
// shape in `arch`, in Megatron's words, where the model is "arch". What `arch` does not state is as Megatron's argument
// parser and the GPT-2 recipes have it. Adds a fault a cell that is wrong; what is returned is complete only when none
// was.
RunModel model_of(const Run& run, const std::vector<std::string>& data_dirs, std::vector<base::Fault>& faults);

}  // namespace moeplan::runs
