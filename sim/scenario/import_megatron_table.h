#pragma once
#include <string>
#include <vector>

namespace moeplan::scenario {

enum class MegatronMeaning { unknown, ignored, unsupported };

// What an option that no reader asked for means: no part in a simulation (logging, checkpoints, data, the optimizer's
// rates), or something that changes it and that this version does not simulate. A value at which an unsupported option
// changes nothing makes it ignored.
MegatronMeaning megatron_meaning(const std::string& name, const std::vector<std::string>& values);

}  // namespace moeplan::scenario
