#include "model/layer_pattern.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support.h"

using namespace moeplan::model;
using moeplan::model::test::edit;
using moeplan::model::test::faults_of;
using moeplan::model::test::kGqaText;
using moeplan::model::test::read;

namespace {

const std::string kLayers = "layers:\n  - { kind: dense, count: 1 }\n  - { kind: moe, count: 2 }\n";  // lines 14 to 16

std::string with_layers(const std::string& lines) { return edit(kGqaText, kLayers, lines); }

std::string pattern_of(const Architecture& arch) {
  std::string text;
  for (const LayerKind kind : arch.layers) text += kind == LayerKind::moe ? '1' : '0';
  return text;
}

std::string expand(const std::string& pattern) {
  const FrequencyPattern parsed = parse_frequency_pattern(pattern);
  if (!parsed.error.empty()) return parsed.error;
  std::string text;
  for (const int value : parsed.values) text += std::to_string(value);
  return text;
}

}  // namespace

TEST_CASE("layers are given as runs, as Megatron's frequency, list or pattern") {
  CHECK(pattern_of(read(kGqaText)) == "011");
  CHECK(pattern_of(read(with_layers(kLayers + "num_layers: 3\n"))) == "011");
  // Megatron: layer i is MoE when i % N == 0.
  CHECK(pattern_of(read(with_layers("num_layers: 5\nmoe_layer_freq: 2\n"))) == "10101");
  CHECK(pattern_of(read(with_layers("num_layers: 5\nmoe_layer_freq: 5\n"))) == "10000");
  CHECK(pattern_of(read(with_layers("num_layers: 4\nmoe_layer_freq: [0, 1, 1, 0]\n"))) == "0110");
  CHECK(pattern_of(read(with_layers("num_layers: 5\nmoe_layer_freq: ([0]*3+[1]*2)\n"))) == "00011");
  CHECK(pattern_of(read(with_layers("num_layers: 5\nmoe_layer_freq: '[0]*3+[1]*2'\n"))) == "00011");
  // Without a frequency all layers are MoE; this file has a dense width, so that is a fault there and not elsewhere.
  const std::string all_moe = with_layers("num_layers: 2\n");
  CHECK(faults_of(all_moe).find("no layer is a dense layer") != std::string::npos);
  CHECK(pattern_of(read(edit(all_moe, "ffn_hidden_size: 16\n", ""))) == "11");
}

TEST_CASE("layer forms that contradict each other are refused") {
  CHECK(faults_of(with_layers(kLayers + "num_layers: 4\n")) ==
        "m.yaml:15:3: layers: expected 4 layers as num_layers says, got 3");
  CHECK(faults_of(with_layers(kLayers + "moe_layer_freq: 2\n")) ==
        "m.yaml:17:17: moe_layer_freq: expected either 'layers' or 'moe_layer_freq', got both");
  CHECK(faults_of(with_layers("")) == "m.yaml:1:1: missing key 'layers' (or 'num_layers' with 'moe_layer_freq')");
  CHECK(faults_of(with_layers("moe_layer_freq: 1\n")) ==
        "m.yaml:1:1: missing key 'layers' (or 'num_layers' with 'moe_layer_freq')");
  CHECK(faults_of(with_layers("num_layers: 3\nmoe_layer_freq: [0, 1]\n")) ==
        "m.yaml:15:17: moe_layer_freq: expected 3 layers as num_layers says, got 2");
  CHECK(faults_of(with_layers("num_layers: 3\nmoe_layer_freq: [0, 1, 2]\n")) ==
        "m.yaml:15:24: moe_layer_freq[2]: expected an integer from 0 to 1, got '2'");
  CHECK(faults_of(with_layers("num_layers: 3\nmoe_layer_freq: 0\n")) ==
        "m.yaml:15:17: moe_layer_freq: expected an integer from 1 to 4096, got '0'");
  CHECK(faults_of(with_layers("num_layers: 3\nmoe_layer_freq: ([0]*3+[2])\n")) ==
        "m.yaml:15:17: moe_layer_freq: expected 0 (dense) or 1 (MoE) at character 9 of '([0]*3+[2])'\n"
        "  hint: a pattern reads like '([0]*3+[1]*58)': 0 dense, 1 MoE");
  CHECK(faults_of(with_layers("layers: []\n")) ==
        "m.yaml:14:9: layers: expected a list of at least one { kind: dense or moe, count: N }");
}

TEST_CASE("faults inside the list of layers come together") {
  CHECK(faults_of(with_layers("layers:\n  - { kind: dense, count: 0 }\n  - { kind: moe, cuont: 2 }\n  - moe\n")) ==
        "m.yaml:15:27: layers[0].count: expected an integer from 1 to 4096, got '0'\n"
        "m.yaml:16:5: layers[1]: missing key 'count'\n"
        "m.yaml:16:18: layers[1].cuont: unknown key 'cuont'\n"
        "  hint: did you mean 'count'?\n"
        "m.yaml:17:5: layers[2]: expected a mapping, got 'moe'");
}

TEST_CASE("the number of layers is bounded") {
  CHECK(faults_of(with_layers("layers:\n  - { kind: dense, count: 1 }\n  - { kind: moe, count: 4095 }\n")) == "");
  CHECK(faults_of(with_layers("layers:\n  - { kind: dense, count: 1 }\n  - { kind: moe, count: 4096 }\n")) ==
        "m.yaml:15:3: layers: expected at most 4096 layers together");
}

TEST_CASE("patterns expand as Python would") {
  CHECK(expand("[1]") == "1");
  CHECK(expand("[0,1]") == "01");
  CHECK(expand("[0] * 3 + [1] * 2") == "00011");
  CHECK(expand("([0,1]*2+[1])*2") == "0101101011");
  CHECK(expand("[0]*2*3") == "000000");
}

TEST_CASE("broken patterns say where") {
  CHECK(expand("") == "expected '[' or '(' at character 1 of ''");
  CHECK(expand("[0") == "expected ']' at character 3 of '[0'");
  CHECK(expand("[]") == "expected 0 (dense) or 1 (MoE) at character 2 of '[]'");
  CHECK(expand("([0]") == "expected ')' at character 5 of '([0]'");
  CHECK(expand("[0]*0") == "expected a count from 1 to 4096 at character 5 of '[0]*0'");
  CHECK(expand("[0]*4096").size() == 4096);
  CHECK(expand("[0]*4097") == "expected a count from 1 to 4096 at character 5 of '[0]*4097'");
  CHECK(expand("[0]*-1") == "expected a count from 1 to 4096 at character 5 of '[0]*-1'");
  CHECK(expand("[0,1]*4096") == "expected at most 4096 layers at character 11 of '[0,1]*4096'");
  CHECK(expand("[0]*4096+[1]") == "expected at most 4096 layers at character 13 of '[0]*4096+[1]'");
  CHECK(expand("[0][1]") == "expected '+', '*' or the end at character 4 of '[0][1]'");
  CHECK(expand(std::string(40, '(')) == "expected fewer parentheses at character 34 of '" + std::string(40, '(') + "'");
}
