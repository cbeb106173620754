#include "measurements/profiles.h"

#include <algorithm>
#include <string_view>

#include "config/data.h"

namespace moeplan::measurements {

Profiles::Profiles(const std::vector<std::string>& data_dirs) {
  const config::Catalogue catalogue("hw_profiles", data_dirs);
  base::Faults faults;
  for (const std::string& name : catalogue.names()) {
    try {
      profiles_.push_back(topology::read_hardware(catalogue.load(name, "", {}), name, faults));
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  faults.throw_if_any();
}

const topology::HardwareProfile* Profiles::find(const std::string& gpu) const {
  for (const topology::HardwareProfile& profile : profiles_) {
    const bool alias = std::any_of(profile.aliases.begin(), profile.aliases.end(),
                                   [&](const std::string& name) { return config::equal_but_case(name, gpu); });
    if (alias || config::equal_but_case(profile.id, gpu)) return &profile;
  }
  return nullptr;
}

std::vector<std::string> Profiles::names() const {
  std::vector<std::string> names;
  for (const topology::HardwareProfile& profile : profiles_) {
    names.push_back(profile.id);
    names.insert(names.end(), profile.aliases.begin(), profile.aliases.end());
  }
  return names;
}

topology::HardwareProfile load_profile(const std::string& reference, const std::vector<std::string>& data_dirs,
                                       const std::string& option) {
  base::Faults faults;
  const config::Catalogue catalogue("hw_profiles", data_dirs);
  const config::Node root = catalogue.load(reference, "", {option, 0, 0, {}});
  // A file's profile is called as the file, one found by an alias by its own name.
  const std::string name = catalogue.name_of(reference);
  const std::size_t slash = name.find_last_of('/');
  std::string id = slash == std::string::npos ? name : name.substr(slash + 1);
  for (const char* end : {".yaml", ".yml"}) {
    if (id.ends_with(end)) id.resize(id.size() - std::string_view(end).size());
  }
  topology::HardwareProfile profile = topology::read_hardware(root, id, faults);
  faults.throw_if_any();
  return profile;
}

}  // namespace moeplan::measurements
