#include "config/data.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/nearest.h"
#include "config/reader.h"

namespace moeplan::config {
namespace {

namespace fs = std::filesystem;

// What a message calls one entry of the catalogue.
std::string noun(const std::string& kind) {
  if (kind == "models") return "model";
  if (kind == "hw_profiles") return "hardware profile";
  return "entry of " + kind;
}

bool names_a_file(const std::string& reference) {
  return reference.find('/') != std::string::npos || reference.ends_with(".yaml") || reference.ends_with(".yml") ||
         reference.ends_with(".json");
}

// The .yaml files of `folder`, which may be missing: a data folder need not hold every kind.
std::vector<DataFile> read_folder(const fs::path& folder) {
  std::vector<DataFile> files;
  std::error_code error;
  if (!fs::exists(folder, error)) return files;
  fs::directory_iterator entries(folder, error);
  if (error) throw base::Error(base::Where{folder.string(), 0, 0, {}}, "cannot read the folder: " + error.message());
  for (const fs::directory_entry& entry : entries) {
    const fs::path& path = entry.path();
    if (path.extension() != ".yaml" || entry.is_directory(error)) continue;
    files.push_back({path.stem().string(), path.string(), base::read_text(path.string(), kMostFileBytes)});
  }
  return files;
}

}  // namespace

bool equal_but_case(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

Catalogue::Catalogue(std::string kind, const std::vector<std::string>& data_dirs) : kind_(std::move(kind)) {
  std::map<std::string, DataFile> by_name;
  for (const DataFile& file : embedded_files(kind_)) by_name[file.name] = file;
  for (const std::string& dir : data_dirs) {
    std::error_code error;
    if (!fs::is_directory(dir, error)) throw base::Error(base::Where{dir, 0, 0, {}}, "expected a folder of data files");
    for (DataFile& file : read_folder(fs::path(dir) / kind_)) by_name[file.name] = std::move(file);
  }
  for (auto& [name, file] : by_name) files_.push_back(std::move(file));
}

std::vector<std::string> Catalogue::names() const {
  std::vector<std::string> names;
  names.reserve(files_.size());
  for (const DataFile& file : files_) names.push_back(file.name);
  return names;
}

std::string Catalogue::name_of(const std::string& reference) const {
  if (names_a_file(reference)) return reference;
  const auto named = [&](const DataFile& file) { return file.name == reference; };
  if (std::any_of(files_.begin(), files_.end(), named)) return reference;
  for (const DataFile& file : files_) {
    if (file.text.find("\naliases:") == std::string::npos) continue;
    base::Faults ignored;  // the file is judged when it is read
    Reader reader(parse_yaml(file.text, file.label), ignored);
    for (const std::string& alias : reader.texts("aliases"))
      if (equal_but_case(alias, reference)) return file.name;
  }
  return reference;
}

Node Catalogue::load(const std::string& reference, const std::string& base_dir, const base::Where& where) const {
  if (names_a_file(reference)) {
    const std::string path = (fs::path(base_dir) / reference).string();
    std::error_code error;
    if (!fs::exists(path, error)) throw base::Error(where, "expected a file, '" + path + "' does not exist");
    return load_yaml(path);
  }
  const std::string name = name_of(reference);
  for (const DataFile& file : files_) {
    if (file.name == name) return parse_yaml(file.text, file.label);
  }
  const std::vector<std::string> known = names();
  std::string hint = base::nearest_hint(reference, known);
  if (hint.empty()) hint = known.empty() ? "none is known" : "known: " + base::join_names(known);
  throw base::Error(where, "unknown " + noun(kind_) + " '" + reference + "'", std::move(hint));
}

}  // namespace moeplan::config
