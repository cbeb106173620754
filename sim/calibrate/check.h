#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/fit.h"

// Whether a machine is what a profile says it is: measurements beside the profile's predictions.
namespace moeplan::calibrate {

struct Finding {
  std::string what;       // "dense GEMM bf16", "SM clock", "sendrecv 2-5"
  double measured = 0;    // over what the profile says, or over its peers: times (above 1: slower), values, clocks
  double allowed = 0;     // times: from 1 / (1 + allowed) to 1 + allowed; values and clocks: 1 +- allowed
  std::int64_t rows = 0;  // that it rests on
  bool deviates = false;
  std::string sentence;  // what it means, where it deviates
};

struct MachineCheck {
  std::string profile;
  std::vector<Finding> findings;
  std::vector<std::string> notes;
  bool deviates() const;
  bool compared() const;  // a time or a value stands among the findings, not clocks alone
};

// What a ratio may be off before it counts: the spread of the profile's cost model and a half more, at least this much.
inline constexpr double kLeastAllowed = 0.05;
// Of pairs of GPUs against the median pair, and clocks against the highest.
inline constexpr double kPairAllowed = 0.15, kClockAllowed = 0.05;

// `rows` have status ok and are of the profile's part, as are the values of `options`; `devices` tell the highest
// clocks. Operations from 1e10 FLOP or 64 MiB on count: below, launches decide.
MachineCheck check_machine(const std::vector<const measurements::Measurement*>& rows, const FitOptions& options,
                           const std::vector<measurements::DeviceLine>& devices,
                           const topology::HardwareProfile& profile);

}  // namespace moeplan::calibrate
