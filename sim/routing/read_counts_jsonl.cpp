#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/nearest.h"
#include "routing/count_grid.h"
#include "routing/count_rows.h"
#include "routing/formats.h"
#include "routing/json_text.h"

namespace moeplan::routing {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 5> kKeys = {"step", "layer", "microbatch", "source", "counts"};
constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

class JsonLines {
 public:
  JsonLines(std::string_view text, const std::string& file) : text_(text), file_(file) { trace_.name = file; }

  CountTrace read() {
    if (text_.starts_with(kUtf8Mark)) text_.remove_prefix(kUtf8Mark.size());
    std::string_view line;
    while (faults_.size() < kMostFaults && next_line(line)) {
      try {
        row(line);
      } catch (const base::Error& error) {
        faults_.add(error);
      }
    }
    if (faults_.empty() && trace_.rows.empty()) faults_.add(at(0), "the file has no rows");
    if (faults_.empty()) add_grid_faults(trace_, kMostFaults, faults_);
    throw_first(faults_);
    return std::move(trace_);
  }

 private:
  base::Where at(int line, std::string key = {}) const { return {file_, line, 0, std::move(key)}; }

  bool next_line(std::string_view& line) {
    if (position_ >= text_.size()) return false;
    const std::size_t end = std::min(text_.find('\n', position_), text_.size());
    line = text_.substr(position_, end - position_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    position_ = end + 1;
    ++number_;
    return true;
  }

  void row(std::string_view line) {
    if (line.empty()) return faults_.add(at(number_), "an empty line");
    const Json object = parse_json(line, file_, number_);
    if (!object.is_object()) return faults_.add(at(number_), "expected an object, got " + shown(object));
    const std::size_t before = faults_.size();
    check_keys(object);
    CountTrace::Row row;
    row.line = number_;
    row.step = key_of(object, "step").value_or(0);
    row.layer = key_of(object, "layer").value_or(0);
    row.microbatch = key_of(object, "microbatch").value_or(-1);
    row.source = key_of(object, "source").value_or(-1);
    if (faults_.size() != before) return;
    add_counts(object.at("counts"));
    if (faults_.size() == before) trace_.rows.push_back(row);
  }

  // step, layer and counts always; microbatch and source in all rows or in none, or "all" would mean two things.
  void check_keys(const Json& object) {
    for (const auto& [key, value] : object.items()) {
      if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
      const std::vector<std::string> names(kKeys.begin(), kKeys.end());
      std::string hint = base::nearest_hint(key, names);
      if (hint.empty()) hint = "expected " + base::join_names(names);
      if (faults_.size() < kMostFaults) {
        faults_.add(at(number_), "unknown key " + shown(Json(key)), std::move(hint));
      }
    }
    for (const char* key : {"step", "layer", "counts"}) {
      if (!object.contains(key)) faults_.add(at(number_), fmt::format("missing key '{}'", key));
    }
    const bool microbatch = object.contains("microbatch"), source = object.contains("source");
    if (trace_.rows.empty()) {
      microbatch_ = microbatch;
      source_ = source;
    }
    for (const auto& [key, here, first] :
         {std::tuple("microbatch", microbatch, microbatch_), std::tuple("source", source, source_)}) {
      if (here == first) continue;
      faults_.add(at(number_), fmt::format("{} key '{}', unlike the rows before", here ? "has a" : "lacks the", key));
    }
  }

  std::optional<std::int64_t> key_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) return std::nullopt;
    const std::optional<std::int64_t> value = whole_number(*found);
    if (value && *value >= 0) return value;
    faults_.add(at(number_, key), "expected a whole number from 0 to 10^15, got " + shown(*found));
    return std::nullopt;
  }

  void add_counts(const Json& list) {
    if (!list.is_array() || list.empty()) {
      return faults_.add(at(number_, "counts"), "expected a list of counts, one an expert, got " +
                                                    (list.is_array() ? std::string("an empty one") : shown(list)));
    }
    if (list.size() > kMostExperts) return faults_.add(at(number_, "counts"), "more than 65,535 experts");
    const auto experts = static_cast<std::int64_t>(list.size());
    if (trace_.experts == 0) trace_.experts = experts;
    if (experts != trace_.experts) {
      return faults_.add(at(number_, "counts"),
                         fmt::format("{} counts, but the rows before have {}", experts, trace_.experts));
    }
    std::vector<std::int64_t> row;
    for (const Json& item : list) {
      const std::optional<std::int64_t> value = whole_number(item);
      if (!value) {
        return faults_.add(at(number_, "counts"), "expected whole numbers from 0 to 10^15, got " + shown(item));
      }
      row.push_back(*value);
    }
    trace_.counts.append(row);
    const std::string fault = row_fault(row);
    if (!fault.empty()) faults_.add(at(number_, "counts"), fault);
  }

  std::string_view text_;
  std::string file_;
  std::size_t position_ = 0;
  int number_ = 0;
  bool microbatch_ = false, source_ = false;  // of the first row
  CountTrace trace_;
  base::Faults faults_;
};

}  // namespace

bool is_counts_jsonl(const std::string& path) { return is_file_with_suffix(path, ".jsonl"); }

CountTrace parse_counts_jsonl(std::string_view text, const std::string& file) { return JsonLines(text, file).read(); }

Trace read_counts_jsonl(const TracePath& path, std::int64_t) {
  return parse_counts_jsonl(base::read_text(path.file), path.file);
}

}  // namespace moeplan::routing
