#include <cmath>
#include <cstdlib>
#include <sstream>

#include "layer.h"
#include "layer/count_lines.h"
#include "options.h"

namespace moeplan::device {
namespace {

using layer::Backward;
using layer::LayerCase;
using layer::LayerShape;

struct Words {
  std::int64_t tokens = 8192, hidden = 2048, ffn = 768, experts = 128, top_k = 8, most_lines = 4;
  std::vector<std::int64_t> chunks = {1, 2, 4, 8};
  std::string skews = "0,1", retention = "1,0.75,0.5,0.25", counts;
};

// Numbers with commas between them.
std::vector<double> reals(const std::string& text, const std::string& option, double least, double most) {
  std::vector<double> values;
  std::istringstream in(text);
  std::string word;
  while (std::getline(in, word, ',')) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0' || !(value >= least && value <= most))
      throw UsageError(option + ": expected numbers from " + json_number(least) + " to " + json_number(most) +
                       " with commas between them, got '" + word + "'");
    values.push_back(value);
  }
  return values;
}

struct Distribution {
  std::string name;
  std::vector<std::int64_t> rows;
};

std::vector<Distribution> distributions_of(const Words& words, const LayerShape& shape) {
  std::vector<Distribution> result;
  for (const double skew : reals(words.skews, "--skews", 0, 5))
    result.push_back({skew > 0 ? "zipf " + json_number(skew) : "uniform",
                      layer::scaled_rows(layer::zipf_weights(shape.experts, skew), shape)});
  if (words.counts.empty()) return result;
  std::ifstream file(words.counts);
  if (!file) throw UsageError("--counts: " + words.counts + " cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  try {
    const auto lines = layer::parse_count_lines(text.str(), words.counts, shape.experts);
    std::int64_t taken = 0;
    for (const layer::CountLine& line : lines) {
      if (taken++ == words.most_lines) break;
      const std::string key = line.key.empty() ? "line " + std::to_string(line.line) : line.key;
      result.push_back({"counts, " + key, layer::scaled_rows(line.weights, shape)});
    }
  } catch (const layer::CountsError& error) {
    throw UsageError(std::string("--counts: ") + error.what());
  }
  return result;
}

// For each distribution: what backward needs is kept; recomputed, at every chunk count; of retained pairs alone.
std::vector<LayerCase> cases_of(const Words& words) {
  LayerCase base;
  base.shape = {words.tokens, words.hidden, words.ffn, static_cast<int>(words.experts), static_cast<int>(words.top_k)};
  if (words.top_k > words.experts)
    throw UsageError("--top-k: expected at most the " + std::to_string(words.experts) + " experts, got " +
                     std::to_string(words.top_k));
  std::vector<LayerCase> cases;
  for (const Distribution& d : distributions_of(words, base.shape)) {
    base.distribution = d.name;
    base.rows = d.rows;
    cases.push_back(base);
    for (const std::int64_t chunks : words.chunks) {
      cases.push_back(base);
      cases.back().backward = Backward::recompute;
      cases.back().chunks = chunks;
    }
    for (const double retention : reals(words.retention, "--retention", 0.001, 1)) {
      cases.push_back(base);
      cases.back().backward = Backward::redispatch;
      cases.back().retention = retention;
    }
  }
  std::string faults;
  for (const LayerCase& c : cases)
    for (const std::string& fault : layer::faults_of(c))
      if (faults.find(fault) == std::string::npos) faults += (faults.empty() ? "--" : "\n--") + fault;
  if (!faults.empty()) throw UsageError(faults);
  return cases;
}

}  // namespace

int layer_command(const std::vector<std::string>& arguments) {
  Words words;
  LayerOptions layers;
  std::int64_t device = 0, seed = 1;
  std::string path;
  std::vector<std::string> products = {"grouped"};
  bool help = false;
  constexpr std::int64_t kMost = 1 << 24;
  Options options;
  options.whole("--device", device, 0, 63, "which GPU (0)")
      .text("--output", path, "write to this file")
      .whole("--tokens", words.tokens, 1, kMost, "of one microbatch (8192)")
      .whole("--hidden", words.hidden, 8, 1 << 17, "width of the model (2048)")
      .whole("--ffn", words.ffn, 8, 1 << 17, "width of an expert (768)")
      .whole("--experts", words.experts, 1, 4096, "on this GPU (128)")
      .whole("--top-k", words.top_k, 1, 4096, "experts of a token (8)")
      .wholes("--chunks", words.chunks, 1, 4096, "chunk counts of the recomputed runs (1,2,4,8)")
      .text("--skews", words.skews, "exponents of Zipf loads, 0 for uniform (0,1)")
      .text("--counts", words.counts, "a file of row counts of a trace: a line of one count an expert, or CSV")
      .whole("--count-lines", words.most_lines, 1, 1000, "at most so many lines of it (4)")
      .text("--retention", words.retention, "shares of the pairs that backward keeps (1,0.75,0.5,0.25)")
      .choices("--products", products, {"grouped", "single"},
               "experts' products in one call, or one an expert (grouped)")
      .real("--seconds", layers.seconds, 1, 36000, "time for all runs together (240)")
      .whole("--seed", seed, 0, 1 << 30, "of the tokens' order (1)")
      .flag("--help", help, "this text");
  options.parse(arguments);
  if (help) {
    std::cout << "moeplan-device layer\n" << options.help();
    return 0;
  }
  layers.cases = cases_of(words);
  layers.seed = static_cast<std::uint64_t>(seed);
  layers.together.clear();
  for (const std::string& kind : products) layers.together.push_back(kind == "grouped");
  require_device();
  Output output(path);
  LineWriter writer(output.stream());
  Timer timer(static_cast<int>(device));
  writer.set_common(common_fields(timer.properties(), timer.monitor()));
  write_device(writer, timer);
  const int status = run_layer(layers, timer, writer);
  writer.finish();
  return status;
}

}  // namespace moeplan::device
