#include <algorithm>
#include <array>
#include <map>

#include "base/file.h"
#include "base/nearest.h"
#include "routing/array_trace.h"
#include "routing/formats.h"
#include "routing/zip_members.h"

namespace moeplan::routing {
namespace {

constexpr std::int64_t kLargestMember = std::int64_t{4} << 30;
constexpr std::array<std::string_view, 3> kMain = {kChoices, kCounts, kExpertCounts};

class NpzReader {
 public:
  NpzReader(std::string_view bytes, const TracePath& path) : path_(path), members_(bytes, path.file) {}

  Trace read() {
    const std::string name = main_name();
    const NpyArray main = *array(name);
    SideArrays side;
    side.layer_ids = array("layer_ids");
    if (name != kChoices) return trace_of_counts(main, side, path_.text());
    side.weights = array("weights");
    side.line_tokens = array("line_tokens");
    side.experts = array("experts");
    side.missing = array("missing");
    return trace_of_choices(main, side, path_.text());
  }

 private:
  // The one array that is the trace.
  std::string main_name() const {
    std::vector<std::string> names, found;
    for (std::string member : members_.names()) {
      if (!member.ends_with(".npy")) continue;
      member.resize(member.size() - 4);
      if (std::find(kMain.begin(), kMain.end(), member) != kMain.end()) found.push_back(member);
      names.push_back(std::move(member));
    }
    const std::string expected = "expected an array routed_experts, counts or expert_counts";
    if (found.empty()) {
      fail(expected + (names.empty() ? ", found no array" : ", found " + base::join_names(names)));
    }
    if (path_.part.empty()) {
      if (found.size() > 1) fail("holds several traces: " + base::join_names(found), "add '#NAME' to the path");
      return found.front();
    }
    if (std::find(found.begin(), found.end(), path_.part) != found.end()) return path_.part;
    const std::string hint = base::nearest_hint(path_.part, found);
    fail("has no trace '" + path_.part + "', only " + base::join_names(found), hint);
  }

  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const {
    throw base::Error({path_.file, 0, 0, {}}, message, hint);
  }

  // Arrays view into contents_, whose strings stay where they are.
  std::optional<NpyArray> array(const std::string& name) {
    std::optional<std::string> content = members_.read(name + ".npy", kLargestMember);
    if (!content) return std::nullopt;
    const std::string& kept = contents_[name] = std::move(*content);
    return parse_npy(kept, path_.file, name);
  }

  TracePath path_;
  ZipMembers members_;
  std::map<std::string, std::string> contents_;
};

}  // namespace

bool is_npz(const std::string& path) { return is_file_with_suffix(path, ".npz"); }

Trace parse_npz_trace(std::string_view bytes, const TracePath& path) { return NpzReader(bytes, path).read(); }

Trace read_npz(const TracePath& path, std::int64_t) { return parse_npz_trace(base::read_file(path.file), path); }

}  // namespace moeplan::routing
