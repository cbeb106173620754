#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "processes.h"

namespace moeplan::device {

struct CollectiveSettings {
  std::int64_t gpus = 0, first = 1024, last = std::int64_t{1} << 30, samples = 20, seed = 1;
  std::string path, id_file;
  std::vector<std::string> what;
  double wait = 120;
};

// Through NCCL, where the program was built with it; else it throws std::runtime_error. Returns the exit status.
int run_collectives(const CollectiveSettings& settings, const Process& process);

}  // namespace moeplan::device
