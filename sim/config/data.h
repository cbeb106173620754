#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "config/document.h"

// Models and hardware profiles are found by name from any folder: they are embedded in the program at build, and
// folders given with --data add to them (a file of the same name there wins).
namespace moeplan::config {

struct DataFile {
  std::string name;   // "qwen3-30b-a3b"
  std::string label;  // how messages call it: "models/qwen3-30b-a3b.yaml", or the path in a --data folder
  std::string text;
};

// A catalogue of one kind ("models" or "hw_profiles"): embedded files and those of `data_dirs`/<kind>/*.yaml (or
// `data_dirs`/*.yaml is not searched). Sorted by name.
class Catalogue {
 public:
  Catalogue(std::string kind, const std::vector<std::string>& data_dirs);
  const std::vector<DataFile>& files() const { return files_; }
  std::vector<std::string> names() const;
  // The name of the file that `reference` means: itself, or the one among whose `aliases` it stands, whatever the
  // letter case. What is unknown, or a path, stays.
  std::string name_of(const std::string& reference) const;
  // Finds `reference`: a name of the catalogue or an alias, or, when it contains '/' or ends in .yaml/.yml/.json, a
  // path relative to `base_dir`. Unknown names throw an Error at `where` with the nearest name.
  Node load(const std::string& reference, const std::string& base_dir, const base::Where& where) const;

 private:
  std::string kind_;
  std::vector<DataFile> files_;
};

// Names of parts are compared whatever their letter case.
bool equal_but_case(const std::string& a, const std::string& b);

// Generated at build from models/ and hw_profiles/ (cmake/embed.cmake).
const std::vector<DataFile>& embedded_files(const std::string& kind);

}  // namespace moeplan::config
