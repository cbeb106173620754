#include <fstream>
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
  std::vector<double> skews = {0, 1}, retention = {1, 0.75, 0.5, 0.25};
  std::string counts;
};

struct Distribution {
  std::string name;
  std::vector<std::int64_t> rows;
};

LayerCase base_of(const Words& words) {
  LayerCase base;
  base.shape = {words.tokens, words.hidden, words.ffn, static_cast<int>(words.experts), static_cast<int>(words.top_k)};
  return base;
}

// What is wrong with `key` of a case.
std::vector<std::string> faults_with(const LayerCase& layer_case, const std::string& key) {
  std::vector<std::string> faults;
  for (const std::string& fault : layer::faults_of(layer_case))
    if (fault.compare(0, key.size() + 1, key + ":") == 0) faults.push_back("--" + fault);
  return faults;
}

std::vector<std::string> chunk_faults(const Words& words) {
  std::vector<std::string> faults;
  for (const std::int64_t chunks : words.chunks) {
    LayerCase layer_case = base_of(words);
    layer_case.chunks = chunks;
    for (const std::string& fault : faults_with(layer_case, "chunks")) faults.push_back(fault);
  }
  return faults;
}

std::vector<Distribution> counted(const Words& words) {
  if (words.counts.empty()) return {};
  std::ifstream file(words.counts);
  if (!file) throw layer::CountsError(words.counts + " cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  const LayerShape shape = base_of(words).shape;
  const auto lines = layer::parse_count_lines(text.str(), words.counts, shape.experts);
  std::vector<Distribution> result;
  for (const layer::CountLine& line : lines) {
    if (static_cast<std::int64_t>(result.size()) == words.most_lines) break;
    const std::string key = line.key.empty() ? "line " + std::to_string(line.line) : line.key;
    result.push_back({"counts, " + key, layer::scaled_rows(line.weights, shape)});
  }
  return result;
}

// For each distribution: what backward needs is kept; recomputed, at every chunk count; of retained pairs alone.
std::vector<LayerCase> cases_of(const Words& words, const std::vector<Distribution>& of_file) {
  LayerCase base = base_of(words);
  std::vector<Distribution> distributions;
  for (const double skew : words.skews)
    distributions.push_back({skew > 0 ? "zipf " + json_number(skew) : "uniform",
                             layer::scaled_rows(layer::zipf_weights(base.shape.experts, skew), base.shape)});
  distributions.insert(distributions.end(), of_file.begin(), of_file.end());
  std::vector<LayerCase> cases;
  for (const Distribution& d : distributions) {
    base.distribution = d.name;
    base.rows = d.rows;
    cases.push_back(base);
    for (const std::int64_t chunks : words.chunks) {
      cases.push_back(base);
      cases.back().backward = Backward::recompute;
      cases.back().chunks = chunks;
    }
    for (const double retention : words.retention) {
      cases.push_back(base);
      cases.back().backward = Backward::redispatch;
      cases.back().retention = retention;
    }
  }
  return cases;
}

}  // namespace

int layer_command(const std::vector<std::string>& arguments) {
  Words words;
  LayerOptions layers;
  Common common;
  std::int64_t seed = 1;
  std::vector<std::string> products = {"grouped"};
  std::vector<Distribution> of_file;
  constexpr std::int64_t kMost = 1 << 24;
  Options options;
  options.whole("--tokens", words.tokens, 1, kMost, "of one microbatch (8192)")
      .whole("--hidden", words.hidden, 8, 1 << 17, "width of the model (2048)")
      .whole("--ffn", words.ffn, 8, 1 << 17, "width of an expert (768)")
      .whole("--experts", words.experts, 1, 4096, "on this GPU (128)")
      .whole("--top-k", words.top_k, 1, 4096, "experts of a token (8)")
      .wholes("--chunks", words.chunks, 1, 4096, "chunk counts of the recomputed runs (1,2,4,8)")
      .reals("--skews", words.skews, 0, 5, "exponents of Zipf loads, 0 for uniform (0,1)")
      .text("--counts", words.counts, "a file of row counts of a trace: a line of one count an expert, or CSV")
      .whole("--count-lines", words.most_lines, 1, 1000, "at most so many lines of it (4)")
      .reals("--retention", words.retention, 0.001, 1, "shares of the pairs that backward keeps (1,0.75,0.5,0.25)")
      .choices("--products", products, {"grouped", "single"},
               "experts' products in one call, or one an expert (grouped)")
      .real("--seconds", layers.seconds, 1, 36000, "time for all runs together (240)")
      .whole("--seed", seed, 0, 1 << 30, "of the tokens' order (1)")
      .check({"--hidden"}, [&] { return faults_with(base_of(words), "hidden"); })
      .check({"--ffn"}, [&] { return faults_with(base_of(words), "ffn"); })
      .check({"--tokens", "--experts", "--top-k"}, [&] { return faults_with(base_of(words), "top-k"); })
      .check({"--tokens", "--chunks"}, [&] { return chunk_faults(words); })
      .check({"--tokens", "--experts", "--top-k", "--counts", "--count-lines"}, [&]() -> std::vector<std::string> {
        if (!faults_with(base_of(words), "top-k").empty()) return {};  // told already
        try {
          of_file = counted(words);
        } catch (const layer::CountsError& error) {
          return {std::string("--counts: ") + error.what()};
        }
        return {};
      });
  if (!read_words("layer", options, common, arguments)) return 0;
  layers.cases = cases_of(words, of_file);
  layers.seed = static_cast<std::uint64_t>(seed);
  layers.together.clear();
  for (const std::string& kind : products) layers.together.push_back(kind == "grouped");
  Session session(common);
  const int status = run_layer(layers, session.timer, session.writer);
  session.writer.finish();
  return status;
}

}  // namespace moeplan::device
