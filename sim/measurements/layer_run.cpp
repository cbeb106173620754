#include "measurements/layer_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/csv.h"
#include "base/file.h"

namespace moeplan::measurements {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostLinesBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24, kMostWidth = std::int64_t{1} << 17;
constexpr std::int64_t kMostExperts = 65535, kMostChunks = 4096;
constexpr std::int64_t kMostPairs = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMostMemory = std::int64_t{1} << 46;
constexpr std::int64_t kMostSteps = 1000000;
constexpr double kMostUs = 1e9;
constexpr double kRounding = 1e-6;  // of numbers with nine digits

// Reads the fields of one line; every fault names its key and what was found.
class LineReader {
 public:
  LineReader(const Json& object, std::string_view line, LayerRun& run) : object_(object), line_(line), run_(run) {}

  std::string text(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_string() || found->get<std::string>().empty()) {
      fault(key, "expected a text, got " + shown(key));
      return {};
    }
    return found->get<std::string>();
  }
  std::int64_t whole(const char* key, std::int64_t least, std::int64_t most) {
    const auto found = object_.find(key);
    const bool is_whole = found != object_.end() && found->is_number_integer() &&
                          !(found->is_number_unsigned() && found->get<std::uint64_t>() > (std::uint64_t{1} << 62));
    const std::int64_t value = is_whole ? found->get<std::int64_t>() : least - 1;
    if (value < least || value > most) {
      fault(key, fmt::format("expected a whole number from {} to {}, got {}", least, most, shown(key)));
      return least;
    }
    return value;
  }
  // A width of what moves eight values at a time.
  std::int64_t eights(const char* key, std::int64_t most) {
    const std::size_t before = run_.faults.size();
    const std::int64_t value = whole(key, 8, most);
    if (run_.faults.size() == before && value % 8 != 0)
      fault(key, fmt::format("expected a multiple of 8, got {}", value));
    return value;
  }
  // Above 0; with `zero`, or 0.
  double real(const char* key, double most, bool zero = false) {
    const auto found = object_.find(key);
    const double value = found != object_.end() && found->is_number() ? found->get<double>() : -1;
    if (!(value >= 0 && value <= most) || (value == 0 && !zero)) {
      fault(key,
            fmt::format("expected a number {} and up to {:g}, got {}", zero ? "from 0" : "above 0", most, shown(key)));
      return 1;
    }
    return value;
  }
  // `count` times above 0, whose median is `median`.
  void samples(const char* key, std::int64_t count, double median) {
    const auto found = object_.find(key);
    const std::string expected = fmt::format("expected a list of {} numbers above 0, one a step", count);
    if (found == object_.end() || !found->is_array()) return fault(key, expected + ", got " + shown(key));
    if (static_cast<std::int64_t>(found->size()) != count)
      return fault(key, fmt::format("{}, got {}", expected, found->size()));
    std::vector<double> values;
    for (const Json& item : *found) {
      const double value = item.is_number() ? item.get<double>() : 0;
      if (!(value > 0 && value <= kMostUs))
        return fault(key,
                     fmt::format("{}, got {} at place {}", expected, base::shown_cell(item.dump()), values.size() + 1));
      values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    const double middle = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
    if (std::abs(middle - median) > kRounding * median)
      fault(key, fmt::format("expected samples whose median is the {:g} us of the line, got {:g}", median, middle));
  }
  std::vector<std::int64_t> wholes(const char* key, std::int64_t count, std::int64_t most) {
    const auto found = object_.find(key);
    const std::string expected = fmt::format("expected a list of {} whole numbers from 0 to {}", count, most);
    if (found == object_.end() || !found->is_array()) {
      fault(key, expected + ", got " + shown(key));
      return {};
    }
    if (static_cast<std::int64_t>(found->size()) != count) {
      fault(key, fmt::format("{}, got {}", expected, found->size()));
      return {};
    }
    std::vector<std::int64_t> values;
    for (const Json& item : *found) {
      const bool good = item.is_number_integer() && item.get<std::int64_t>() >= 0 && item.get<std::int64_t>() <= most;
      if (!good) {
        fault(key, fmt::format("{}, got {} at place {}", expected, base::shown_cell(item.dump()), values.size() + 1));
        return {};
      }
      values.push_back(item.get<std::int64_t>());
    }
    return values;
  }
  void fault(const char* key, std::string message) {
    const std::size_t at = line_.find(fmt::format("\"{}\"", key));
    base::Where where = run_.where;
    where.column = at == std::string_view::npos ? 0 : static_cast<int>(at) + 1;
    where.key = key;
    run_.faults.push_back({std::move(where), std::move(message), {}, {}});
  }

 private:
  std::string shown(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? "nothing"
                                  : base::shown_cell(found->dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  const Json& object_;
  std::string_view line_;
  LayerRun& run_;
};

void check_rows(LineReader& in, const LayerRun& run) {
  if (static_cast<std::int64_t>(run.chunk_rows.size()) != run.chunks * run.experts) return;  // told already
  const std::int64_t wanted = run.tokens / run.chunks * run.top_k;
  for (std::int64_t chunk = 0; chunk < run.chunks; ++chunk) {
    const auto first = run.chunk_rows.begin() + chunk * run.experts;
    const std::int64_t sum = std::accumulate(first, first + run.experts, std::int64_t{0});
    if (sum == wanted) continue;
    return in.fault("chunk_rows", fmt::format("expected {} rows in chunk {}, tokens / chunks * top_k, got {}", wanted,
                                              chunk + 1, sum));
  }
  if (run.retained_rows.empty()) return;
  // The share of each expert's rows, rounded up (a share such as 0.1 is no binary fraction: a hair above is not a row).
  for (std::int64_t e = 0; e < run.experts; ++e) {
    const auto i = static_cast<std::size_t>(e);
    const auto kept =
        static_cast<std::int64_t>(std::ceil(run.retention * static_cast<double>(run.chunk_rows[i]) - kRounding));
    if (run.retained_rows[i] != kept)
      return in.fault("retained_rows", fmt::format("expected {} of the {} rows of expert {} at retention {:g}, got {}",
                                                   kept, run.chunk_rows[i], e, run.retention, run.retained_rows[i]));
  }
}

// What one number says of another.
void check_peaks(LineReader& in, const LayerRun& run) {
  const std::int64_t highest = std::max(run.forward_peak_bytes, run.backward_peak_bytes);
  if (run.peak_allocated_bytes != highest)
    in.fault("peak_allocated_bytes", fmt::format("expected {}, the larger of forward_peak_bytes and "
                                                 "backward_peak_bytes, got {}",
                                                 highest, run.peak_allocated_bytes));
  else if (run.peak_reserved_bytes < highest)
    in.fault("peak_reserved_bytes", fmt::format("expected at least the {} bytes of peak_allocated_bytes, got {}",
                                                highest, run.peak_reserved_bytes));
}

void read_run(const Json& object, std::string_view line, LayerRun& run) {
  LineReader in(object, line, run);
  run.gpu = in.text("gpu");
  run.program = in.text("program");
  run.driver = in.text("driver");
  run.cuda = in.text("cuda");
  run.library = in.text("library");
  run.distribution = in.text("distribution");
  run.tokens = in.whole("tokens", 1, kMostTokens);
  run.hidden = in.eights("hidden", kMostWidth);
  run.ffn = in.eights("ffn", kMostWidth);
  run.experts = in.whole("experts", 1, kMostExperts);
  run.top_k = in.whole("top_k", 1, run.experts);
  if (run.tokens * run.top_k > kMostPairs)
    in.fault("top_k",
             fmt::format("expected at most {} pairs, tokens times top_k, got {}", kMostPairs, run.tokens * run.top_k));
  run.chunks = in.whole("chunks", 1, kMostChunks);
  if (run.tokens % run.chunks != 0)
    in.fault("chunks", fmt::format("expected a divisor of {} tokens, got {}", run.tokens, run.chunks));
  run.backward = in.text("backward");
  const bool redispatch = run.backward == "redispatch";
  if (!run.backward.empty() && !redispatch && run.backward != "kept" && run.backward != "recompute")
    in.fault("backward", "expected kept, recompute or redispatch, got '" + base::shown_cell(run.backward) + "'");
  if (redispatch && run.chunks != 1) in.fault("chunks", fmt::format("expected 1 with redispatch, got {}", run.chunks));
  run.retention = in.real("retention", 1);
  if (!redispatch && run.retention < 1)
    in.fault("retention", fmt::format("expected 1 where backward is of all pairs, got {:g}", run.retention));
  if (run.faults.empty()) run.chunk_rows = in.wholes("chunk_rows", run.chunks * run.experts, run.tokens / run.chunks);
  if (run.faults.empty() && redispatch) run.retained_rows = in.wholes("retained_rows", run.experts, run.tokens);
  const double forward_us = in.real("forward_us", kMostUs), backward_us = in.real("backward_us", kMostUs);
  run.forward_s = forward_us * 1e-6;
  run.backward_s = backward_us * 1e-6;
  run.forward_uncertainty = in.real("forward_uncertainty", 1, true);
  run.backward_uncertainty = in.real("backward_uncertainty", 1, true);
  run.steps = in.whole("steps", 1, kMostSteps);
  if (run.faults.empty()) in.samples("forward_samples_us", run.steps, forward_us);
  if (run.faults.empty()) in.samples("backward_samples_us", run.steps, backward_us);
  run.forward_peak_bytes = in.whole("forward_peak_bytes", 1, kMostMemory);
  run.backward_peak_bytes = in.whole("backward_peak_bytes", 1, kMostMemory);
  run.peak_allocated_bytes = in.whole("peak_allocated_bytes", 1, kMostMemory);
  run.peak_reserved_bytes = in.whole("peak_reserved_bytes", 1, kMostMemory);
  if (run.faults.empty()) check_peaks(in, run);
  if (run.faults.empty()) check_rows(in, run);
}

// Runs of two devices or drivers do not belong into one comparison.
void check_versions(LayerRun& run, const LayerRun& first) {
  const auto versions = [](const LayerRun& r) {
    return fmt::format("{}, {}, driver {}, CUDA {}", base::shown_cell(r.gpu), base::shown_cell(r.program),
                       base::shown_cell(r.driver), base::shown_cell(r.cuda));
  };
  if (run.gpu == first.gpu && run.program == first.program && run.driver == first.driver && run.cuda == first.cuda)
    return;
  const char* what = run.gpu == first.gpu ? "mixed versions" : "another device";
  run.faults.push_back({run.where,
                        fmt::format("{}: {}, but the first run is of {}", what, versions(run), versions(first)),
                        {},
                        {first.where}});
}

std::string text_or_empty(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class FileReader {
 public:
  explicit FileReader(const std::string& file) { result_.file = file; }

  void take(std::string_view line, int number) {
    const base::Where where{result_.file, number, 0, {}};
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded() || !object.is_object()) {
      const bool cut = line.find('}') == std::string_view::npos;
      const bool nan = line.find("NaN") != std::string_view::npos || line.find("nan") != std::string_view::npos;
      result_.faults.push_back({where,
                                cut ? "the line is cut short" : "the line is no JSON object",
                                nan ? "JSON has no NaN: the time was not taken" : "",
                                {}});
      ++lines_;
      return;
    }
    const std::string schema = text_or_empty(object, "schema"), record = text_or_empty(object, "record");
    if (schema == "moeplan.layer/1") {
      LayerRun run;
      run.where = where;
      read_run(object, line, run);
      if (run.faults.empty() && first_ >= 0) check_versions(run, result_.runs[static_cast<std::size_t>(first_)]);
      if (run.faults.empty() && first_ < 0) first_ = static_cast<std::ptrdiff_t>(result_.runs.size());
      if (!run.faults.empty()) run.status = Status::error;
      result_.runs.push_back(std::move(run));
    } else if (schema != "moeplan.device/1") {
      result_.faults.push_back(
          {where,
           fmt::format("expected schema moeplan.layer/1 or moeplan.device/1, got '{}'", base::shown_cell(schema)),
           {},
           {}});
    } else if (record == "end") {
      return end(object, where);
    } else if (record == "left_out") {
      result_.left_out.push_back(text_or_empty(object, "what") + ": " + text_or_empty(object, "why"));
    } else if (record == "device") {
      if (open_)
        result_.faults.push_back({where, "a run begins before the one above has ended: it was cut short", {}, {}});
      open_ = true;
      lines_ = 0;
    }
    ++lines_;
  }

  LayerRunFile finish() {
    if (open_)
      result_.faults.push_back({{result_.file, 0, 0, {}},
                                "the last run has no end line: it was cut short, and what came after is missing",
                                {},
                                {}});
    if (result_.runs.empty() && result_.faults.empty())
      throw base::Error({result_.file, 0, 0, {}}, "no runs of layers: no line has schema moeplan.layer/1",
                        "moeplan-device layer writes them");
    return std::move(result_);
  }

 private:
  void end(const Json& object, const base::Where& where) {
    open_ = false;
    const auto lines = object.find("lines");
    if (lines != object.end() && lines->is_number_integer() && lines->get<std::int64_t>() != lines_)
      result_.faults.push_back(
          {where,
           fmt::format("the run had {} lines before this one, but {} stand here", lines->get<std::int64_t>(), lines_),
           {},
           {}});
    lines_ = 0;
  }
  LayerRunFile result_;
  std::ptrdiff_t first_ = -1;  // of runs: whose versions count
  bool open_ = false;
  std::int64_t lines_ = 0;
};

}  // namespace

LayerRunFile parse_layer_runs(std::string_view text, const std::string& file) {
  FileReader reader(file);
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) reader.take(line, number);
  }
  return reader.finish();
}

LayerRunFile read_layer_runs(const std::string& path) {
  return parse_layer_runs(base::read_text(path, kMostLinesBytes), path);
}

}  // namespace moeplan::measurements
