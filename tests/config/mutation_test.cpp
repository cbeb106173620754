#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "config/document.h"
#include "config/reader.h"

using namespace moeplan;
using config::Node;

namespace {

// Numbers in a fixed order, from one stream.
class Dice {
 public:
  explicit Dice(std::uint64_t stream) : stream_(stream) {}
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_.bits(stream_, index_++) % limit); }

 private:
  base::Random random_{2024};
  std::uint64_t stream_;
  std::uint64_t index_ = 0;
};

std::string mutated(std::string text, Dice& dice) {
  const std::vector<std::string> pieces = {"&training ", "*training", "[",  "]",    "{",    "}",    "- ",  "? ", ": ",
                                           "\n",         "\t",        "|",  ">",    "!x ",  "<<: ", "'",   "\"", "#",
                                           "---\n",      "...\n",     "%Y", "\xFF", "\xC3", "~",    "\\U", "\r", "@"};
  const std::size_t changes = 1 + dice.below(4);
  for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
    const std::size_t at = dice.below(text.size());
    switch (dice.below(6)) {
      case 0:
        text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1u << dice.below(8)));
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.erase(at, 1 + dice.below(20));
        break;
      case 3:
        text.insert(at, text.substr(dice.below(text.size()), 1 + dice.below(60)));
        break;
      default:
        text.insert(at, pieces[dice.below(pieces.size())]);
    }
  }
  return text;
}

// Touches every node through the public interface; the number of nodes.
std::size_t walk(const Node& node) {
  std::size_t nodes = 1;
  if (node.describe().empty()) return 0;
  if (node.kind() == Node::Kind::list) {
    for (const Node& item : node.items()) nodes += walk(item);
  }
  if (node.kind() == Node::Kind::map) {
    for (const std::string& key : node.keys()) nodes += walk(node.at(key));
  }
  return nodes;
}

// Reads the sections as a scenario reader would; every fault must come as a fault, never as another exception.
void read_sections(const Node& root) {
  base::Faults faults;
  config::Reader reader(root, faults);
  reader.text("model");
  config::Reader parallel = reader.map("parallel");
  parallel.integer("expert_model_parallel_size", {1, 4096});
  parallel.finish();
  config::Reader memory = reader.map("memory");
  memory.texts("recompute_modules");
  memory.quantity("reserve", base::Dimension::bytes);
  memory.finish();
  reader.integers("list");
  reader.finish();
}

}  // namespace

TEST_CASE("whatever is done to a scenario's text, it is read or refused with a place inside it") {
  const std::string valid = base::read_text(std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/config/scenario.yaml");
  REQUIRE(walk(config::parse_yaml(valid, "m.yaml")) > 40);
  int read = 0;
  int refused = 0;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    Dice dice(i);
    const std::string text = mutated(valid, dice);
    const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
    CAPTURE(i);
    try {
      const Node root = config::parse_yaml(text, "m.yaml");
      REQUIRE(root.kind() == Node::Kind::map);
      REQUIRE(walk(root) >= 1);
      read_sections(root);
      ++read;
    } catch (const base::Error& error) {
      REQUIRE_FALSE(error.faults().empty());
      for (const base::Fault& fault : error.faults()) {
        REQUIRE(fault.where.file == "m.yaml");
        REQUIRE(fault.where.line >= 1);
        REQUIRE(fault.where.line <= lines + 1);
        REQUIRE_FALSE(fault.message.empty());
      }
      ++refused;
    }
  }
  // Both ends are reached often: otherwise the mutations would test one of them only.
  CHECK(read > 500);
  CHECK(refused > 500);
}

TEST_CASE("random bytes and every truncation of a scenario are read or refused") {
  const std::string valid = base::read_text(std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/config/scenario.yaml");
  std::vector<std::string> texts;
  for (std::size_t size = 0; size < valid.size(); ++size) texts.push_back(valid.substr(0, size));
  for (std::uint64_t i = 0; i < 1000; ++i) {
    Dice dice(1'000'000 + i);
    std::string text(dice.below(80), ' ');
    // Half from all bytes, half from those that mean something in YAML.
    const std::string special = "[]{}:,-?&*!|>'\"%#@` \n\tab01~<.\\";
    for (char& c : text) c = i % 2 == 0 ? static_cast<char>(dice.below(256)) : special[dice.below(special.size())];
    texts.push_back(text);
  }
  int read = 0;
  for (const std::string& text : texts) {
    CAPTURE(text);
    try {
      read += walk(config::parse_yaml(text, "m.yaml")) >= 1 ? 1 : 0;
    } catch (const base::Error& error) {
      REQUIRE_FALSE(error.faults().empty());
      REQUIRE(error.faults().front().where.file == "m.yaml");
    }
  }
  CHECK(read > 10);  // truncations at the end of a line are documents of their own
}
