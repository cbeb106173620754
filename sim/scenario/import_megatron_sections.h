#pragma once
#include <string>

#include "model/architecture.h"
#include "scenario/import_megatron.h"
#include "scenario/import_megatron_options.h"

namespace moeplan::scenario {

// The shape that the options state, with Megatron's defaults. Faults for what is missing or cannot be; what is returned
// is complete only when none were added. `vocabulary`: 0 where neither options nor settings state one.
model::Architecture megatron_model(MegatronOptions& options, const MegatronSettings& settings);

// The shipped model of the same shape (names, sources and routing bias aside), "" when there is none. A vocabulary of 0
// is taken from the first model whose other fields agree.
std::string shipped_model(model::Architecture& arch, std::int64_t tp);

// The sections parallel to routing of a scenario file.
std::string megatron_sections(MegatronOptions& options, const model::Architecture& arch, std::int64_t gpus);

}  // namespace moeplan::scenario
