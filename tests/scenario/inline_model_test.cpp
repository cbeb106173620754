#include <doctest/doctest.h>

#include "base/file.h"
#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

namespace {

// The small scenario with the content of its model file in place of the name.
std::string with_inline_model() {
  std::string model = "model:\n";
  std::string line;
  for (const char c : base::read_text(kData + "/models/tiny-moe.yaml")) {
    line += c;
    if (c != '\n') continue;
    model += "  " + line;
    line.clear();
  }
  return model + kSmall.substr(kSmall.find('\n') + 1);
}

}  // namespace

TEST_CASE("a model file's content under `model` is that model") {
  const Scenario named = resolve(kSmall), written = resolve(with_inline_model());
  CHECK(written.model.id == "tiny-moe");
  CHECK(written.model.hidden == named.model.hidden);
  CHECK(written.model.moe == named.model.moe);
  CHECK(written.model.attention == named.model.attention);
  CHECK(written.model.layers == named.model.layers);
}

TEST_CASE("overrides of the model's keys work on a model that is written out") {
  CHECK(resolve(with_inline_model(), {{"model.vocab_size", "1024"}}).model.vocab == 1024);
  CHECK(resolve(with_inline_model(), {{"model.moe.moe_router_topk", "4"}}).model.moe.top_k == 4);
}

TEST_CASE("faults of a model that is written out stand in the scenario, under its key") {
  std::string text = with_inline_model();
  text.replace(text.find("hidden_size: 64"), 15, "hidden_size: wide");
  const std::vector<base::Fault> faults = faults_of(text);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].where.file == "s.yaml");
  CHECK(faults[0].where.key == "model.hidden_size");
  CHECK(faults[0].where.line == 5);  // after model, the comment, name and source
}

TEST_CASE("a list is no model") {
  const std::vector<base::Fault> faults = faults_of("model: [tiny-moe]\n" + kSmall.substr(kSmall.find('\n') + 1));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].where.key == "model");
}
