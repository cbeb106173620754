#include <doctest/doctest.h>

#include "base/file.h"
#include "base/random.h"
#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

namespace {

// The quickstart as it is shipped, under balanced routing so that no trace is read.
std::string quickstart() {
  std::string text = base::read_text(std::string(MOEPLAN_SOURCE_DIR) + "/scenarios/quickstart.yaml");
  const std::string trace = "trace: traces/esft_dsv2lite_law";
  const std::size_t at = text.find(trace);
  REQUIRE(at != std::string::npos);
  text.replace(at, trace.size(), "balanced: true");
  std::string bare;  // without comments: a change there would test nothing
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const std::string kept = line.substr(0, line.find('#'));
    if (kept.find_first_not_of(' ') != std::string::npos) bare += kept + "\n";
    begin = end + 1;
  }
  return bare;
}

const std::vector<std::string>& tokens() {
  static const std::vector<std::string> list = {"0",        "-1",    "1",
                                                "3",        "64",    "9223372036854775807",
                                                "1e400",    ".nan",  "null",
                                                "~",        "true",  "[]",
                                                "{}",       "[1, ",  "'",
                                                "\"",       ": ",    "- ",
                                                "\n",       "  ",    "bf16",
                                                "moe",      "&a",    "*a",
                                                "!!x ",     "80 GB", "ep:",
                                                "trace: x", "full",  "\t",
                                                "\xff",     "model", "lognormal: { sigma: 1 }",
                                                "rule",     "tp: 2"};
  return list;
}

// One or two edits: a piece cut out, doubled, or replaced by a token.
std::string mutated(std::string text, std::uint64_t seed) {
  const base::Random random(seed);
  const std::uint64_t edits = 1 + random.bits(0, 0) % 2;
  for (std::uint64_t i = 0; i < edits; ++i) {
    if (text.empty()) break;
    const std::size_t at = random.bits(1, i) % text.size();
    const std::size_t length = random.bits(2, i) % 12;
    const std::string& token = tokens()[random.bits(3, i) % tokens().size()];
    switch (random.bits(4, i) % 3) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      default:
        text.replace(at, length, token);
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("a scenario that is broken at random is refused with a message or taken and never ends otherwise") {
  const std::string text = quickstart();
  REQUIRE(faults_of(text).empty());
  int refused = 0, taken = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    try {
      resolve(mutated(text, seed));
      ++taken;
    } catch (const base::Error& error) {
      ++refused;
      CHECK_FALSE(error.faults().empty());
      for (const base::Fault& fault : error.faults()) CHECK_FALSE(fault.message.empty());
    }
  }
  // Both ends are reached, so the edits are neither too weak nor too strong.
  CHECK(refused > 500);
  CHECK(taken > 50);
}

TEST_CASE("values of options broken at random are refused with a message or taken") {
  const std::string text = quickstart();
  const auto keys = scenario_keys();
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    CAPTURE(seed);
    const base::Random random(seed);
    Settings overrides;
    for (std::uint64_t i = 0; i < 2; ++i) {
      overrides.emplace_back(keys[random.bits(0, i) % keys.size()].first,
                             tokens()[random.bits(1, i) % tokens().size()]);
    }
    try {
      resolve(text, overrides);
    } catch (const base::Error& error) {
      CHECK_FALSE(error.faults().empty());
    }
  }
}
