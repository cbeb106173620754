#pragma once
#include <string>
#include <vector>

#include "topology/hardware.h"

namespace moeplan::measurements {

// The hardware profiles of a catalogue, each read and checked, found by id or by the names that tables use.
class Profiles {
 public:
  // The embedded ones and those of `data_dirs`. Throws base::Error with the faults of every profile that is wrong.
  explicit Profiles(const std::vector<std::string>& data_dirs);
  explicit Profiles(std::vector<topology::HardwareProfile> profiles) : profiles_(std::move(profiles)) {}

  // Letter case does not count; nullptr where no profile has that name.
  const topology::HardwareProfile* find(const std::string& gpu) const;
  std::vector<std::string> names() const;  // ids and aliases

 private:
  std::vector<topology::HardwareProfile> profiles_;
};

// One profile: a name of the catalogue or a path, as scenarios name it. `option` is how messages call the request.
topology::HardwareProfile load_profile(const std::string& reference, const std::vector<std::string>& data_dirs,
                                       const std::string& option);

}  // namespace moeplan::measurements
