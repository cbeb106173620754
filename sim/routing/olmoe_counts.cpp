#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/nearest.h"
#include "routing/count_grid.h"
#include "routing/count_rows.h"
#include "routing/formats.h"
#include "routing/json_text.h"
#include "routing/json_trace.h"

namespace moeplan::routing {
namespace {

using Json = nlohmann::json;

class OlmoeReader {
 public:
  OlmoeReader(const Json& document, const TracePath& path) : document_(document), path_(path) {}

  CountTrace read() {
    const std::vector<std::int64_t> layers = layer_ids();
    const Json& models = object(document_, "models", "models");
    const auto [model, domain] = selected(models);
    const std::string place = "models." + model;
    const Json& entry = models.at(model);
    CountTrace trace;
    trace.name = path_.text();
    trace.experts = number(entry, "num_experts", place, static_cast<std::int64_t>(kMostExperts));
    trace.top_k = number(entry, "topk", place, trace.experts);
    const Json& rows = entry.at("counts").at(domain);
    if (!rows.is_array() || rows.size() != layers.size()) {
      fail(fmt::format("{}.counts.{}", place, domain),
           fmt::format("expected a list for each of {} layers", layers.size()));
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      add_row(rows[i], fmt::format("{}.counts.{}[{}]", place, domain, i), trace);
      CountTrace::Row row;
      row.layer = layers[i];
      trace.rows.push_back(row);
    }
    base::Faults faults;
    add_grid_faults(trace, kMostFaults, faults);  // a layer that stands twice
    throw_first(faults);
    return trace;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& message, const std::string& hint = {}) const {
    throw base::Error({path_.file, 0, 0, key}, message, hint);
  }

  const Json& object(const Json& holder, const char* key, const std::string& place) const {
    const auto found = holder.find(key);
    if (found == holder.end() || !found->is_object()) fail(place, "expected an object");
    return *found;
  }

  std::int64_t number(const Json& entry, const char* key, const std::string& place, std::int64_t most) const {
    const auto found = entry.find(key);
    const std::optional<std::int64_t> value = found == entry.end() ? std::nullopt : whole_number(*found);
    if (!value || *value < 1 || *value > most)
      fail(place + "." + key, fmt::format("expected an integer from 1 to {}", most));
    return *value;
  }

  std::vector<std::int64_t> layer_ids() const {
    const auto found = document_.find("layers");
    if (found == document_.end() || !found->is_array() || found->empty()) fail("layers", "expected a list of layers");
    std::vector<std::int64_t> layers;
    for (const Json& item : *found) {
      const std::optional<std::int64_t> layer = whole_number(item);
      if (!layer || *layer < 0) fail("layers", "expected integers >= 0, got " + shown(item));
      layers.push_back(*layer);
    }
    return layers;
  }

  // Model and domain that the part names; models without counts have no domains and are none of the names.
  std::pair<std::string, std::string> selected(const Json& models) const {
    std::vector<std::string> names;
    for (const auto& [model, entry] : models.items()) {
      if (!entry.is_object()) fail("models." + model, "expected an object");
      for (const auto& [domain, rows] : object(entry, "counts", "models." + model + ".counts").items()) {
        names.push_back(model + "/" + domain);
        if (names.back() == path_.part) return {model, domain};
      }
    }
    if (names.empty()) fail("models", "holds no counts");
    if (path_.part.empty()) {
      fail({}, "holds several traces: add '#' and one of " + base::join_names(names) + " to the path");
    }
    fail({}, "has no '" + path_.part + "', only " + base::join_names(names), base::nearest_hint(path_.part, names));
  }

  void add_row(const Json& list, const std::string& place, CountTrace& trace) const {
    if (!list.is_array() || static_cast<std::int64_t>(list.size()) != trace.experts) {
      fail(place, fmt::format("expected a list of {} counts, one an expert", trace.experts));
    }
    std::vector<std::int64_t> row;
    for (const Json& item : list) {
      const std::optional<std::int64_t> value = whole_number(item);
      if (!value) fail(place, "expected whole numbers from 0 to 10^15, got " + shown(item));
      row.push_back(*value);
    }
    trace.counts.append(row);
    const std::string fault = row_fault(row);
    if (!fault.empty()) fail(place, fault);
  }

  const Json& document_;
  TracePath path_;
};

}  // namespace

CountTrace olmoe_counts(const Json& document, const TracePath& path) { return OlmoeReader(document, path).read(); }

}  // namespace moeplan::routing
