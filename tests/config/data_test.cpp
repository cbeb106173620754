#include "config/data.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "support.h"

using namespace moeplan;
using config::Catalogue;
using config::DataFile;
namespace fs = std::filesystem;

namespace {

const base::Where kPlace{"a.yaml", 3, 8, "model"};

// A folder of data files, removed at the end.
class DataFolder {
 public:
  DataFolder() {
    std::string pattern = (fs::temp_directory_path() / "moeplan_data_test_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
    fs::create_directory(path_ + "/models");
  }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;
  ~DataFolder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path_ + "/" + name) << text; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("the embedded files are those of the source tree, byte by byte") {
  for (const std::string kind : {"models", "hw_profiles"}) {
    std::vector<std::string> on_disk;
    const fs::path folder = fs::path(MOEPLAN_SOURCE_DIR) / kind;
    if (fs::exists(folder)) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ".yaml") on_disk.push_back(entry.path().stem().string());
      }
    }
    std::vector<std::string> embedded;
    for (const DataFile& file : config::embedded_files(kind)) {
      CAPTURE(file.label);
      embedded.push_back(file.name);
      CHECK(file.label == kind + "/" + file.name + ".yaml");
      CHECK(file.text == base::read_file(std::string(MOEPLAN_SOURCE_DIR) + "/" + file.label));
    }
    std::sort(on_disk.begin(), on_disk.end());
    std::sort(embedded.begin(), embedded.end());
    CHECK(embedded == on_disk);
  }
  CHECK(config::embedded_files("neither").empty());
}

TEST_CASE("every embedded file is a mapping that parses") {
  for (const std::string kind : {"models", "hw_profiles"}) {
    const Catalogue catalogue(kind, {});
    CHECK(catalogue.files().size() == config::embedded_files(kind).size());
    for (const std::string& name : catalogue.names()) {
      CAPTURE(name);
      CHECK(message_of([&] { catalogue.load(name, "", kPlace); }) == "no error");
    }
  }
}

TEST_CASE("a data folder adds files, sorted by name, and a later folder wins") {
  const DataFolder first;
  const DataFolder second;
  first.put("models/zz-b.yaml", "from: first\n");
  first.put("models/zz-a.yaml", "from: first\n");
  first.put("models/zz-c.json", "{}");
  first.put("zz-d.yaml", "from: root\n");
  second.put("models/zz-b.yaml", "from: second\n");
  const Catalogue catalogue("models", {first.path(), second.path()});
  const std::vector<std::string> names = catalogue.names();
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::count(names.begin(), names.end(), "zz-a") == 1);
  CHECK(std::count(names.begin(), names.end(), "zz-b") == 1);
  CHECK(std::count(names.begin(), names.end(), "zz-c") == 0);
  CHECK(std::count(names.begin(), names.end(), "zz-d") == 0);
  const config::Node node = catalogue.load("zz-b", "", kPlace);
  CHECK(node.at("from").scalar() == "second");
  CHECK(node.at("from").where().file == second.path() + "/models/zz-b.yaml");
  CHECK(catalogue.load("zz-a", "", kPlace).at("from").scalar() == "first");
  // A folder without the kind adds nothing.
  CHECK(Catalogue("hw_profiles", {first.path()}).files().size() == config::embedded_files("hw_profiles").size());
}

TEST_CASE("a data folder that does not exist, and a broken file in one, are refused by name") {
  CHECK(message_of([] { Catalogue("models", {"no/such/folder"}); }) ==
        "no/such/folder: expected a folder of data files");
  const DataFolder folder;
  folder.put("models/bad.yaml", "a: \xFF\n");
  CHECK(message_of([&] { Catalogue("models", {folder.path()}); }) ==
        folder.path() + "/models/bad.yaml:1:4: not valid UTF-8 text");
}

TEST_CASE("a reference with a slash or a known ending is a path relative to the file that names it") {
  const DataFolder folder;
  folder.put("own.yaml", "from: own\n");
  folder.put("config.json", "{\"from\": \"json\"}");
  folder.put("models/m.yaml", "from: models\n");
  const Catalogue catalogue("models", {});
  CHECK(catalogue.load("own.yaml", folder.path(), kPlace).at("from").scalar() == "own");
  CHECK(catalogue.load("config.json", folder.path(), kPlace).at("from").scalar() == "json");
  CHECK(catalogue.load("models/m.yaml", folder.path(), kPlace).at("from").scalar() == "models");
  CHECK(catalogue.load(folder.path() + "/own.yaml", "elsewhere", kPlace).at("from").scalar() == "own");
  CHECK(message_of([&] { catalogue.load("none.yaml", folder.path(), kPlace); }) ==
        "a.yaml:3:8: model: expected a file, '" + folder.path() + "/none.yaml' does not exist");
}

TEST_CASE("an unknown name is a fault at its place with the nearest name") {
  const DataFolder folder;
  folder.put("models/zz-testing-model.yaml", "a: 1\n");
  const Catalogue catalogue("models", {folder.path()});
  CHECK(message_of([&] { catalogue.load("zz-testin-model", "", kPlace); }) ==
        "a.yaml:3:8: model: unknown model 'zz-testin-model'\n  hint: did you mean 'zz-testing-model'?");
  const std::string far = message_of([&] { catalogue.load("0123456789", "", kPlace); });
  CHECK(far.find("a.yaml:3:8: model: unknown model '0123456789'\n  hint: known: ") == 0);
  CHECK(far.find("zz-testing-model") != std::string::npos);
  CHECK(message_of([&] {
          Catalogue("hw_profiles", {}).load("0123456789", "", kPlace);
        }).find("unknown hardware profile '0123456789'") != std::string::npos);
}
