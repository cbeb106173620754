#include "scenario/stages.h"

#include <doctest/doctest.h>

using namespace moeplan::scenario;

namespace {
StageRules rules(std::int64_t layers, std::int64_t pp, std::int64_t vpp = 1, std::int64_t mtp = 0) {
  StageRules r;
  r.layers = layers;
  r.pp = pp;
  r.vpp = vpp;
  r.mtp = mtp;
  return r;
}
std::string even(const StageRules& r) { return even_stages(r).first.text(); }
}  // namespace

TEST_CASE("even stages: chunks in model order, embedding first, MTP and loss last") {
  CHECK(even(rules(4, 2)) == "Ett|ttL");
  CHECK(even(rules(4, 2, 2, 1)) == "Et|t|t|tmL");
  const auto map = even_stages(rules(8, 2, 2)).first;
  // Chunk v of rank r is the (2 v + r)-th: rank 0 holds layers 0, 1 and 4, 5.
  CHECK(map.layers_of(0) == std::vector<std::int32_t>{0, 1, 4, 5});
  CHECK(map.layers_of(1) == std::vector<std::int32_t>{2, 3, 6, 7});
  CHECK(map.stage_of_layer(5) == 0);
  CHECK(map.stage_of_layer(6) == 1);
}

TEST_CASE("a letter of another alphabet is named whole") {
  const auto faults = parse_stages("Et\u00e4|L", rules(1, 2)).second;
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].second == "character 3: expected E, t, m, L, '|' or '(', got '\u00e4'");
}

TEST_CASE("embedding and loss may count as layers: 94 layers over 4 x 3 with both accounted for") {
  auto r = rules(94, 4, 3);
  CHECK_FALSE(even_stages(r).second.empty());  // 94 is no multiple of 12
  r.account_for_embedding = r.account_for_loss = true;
  const auto map = even_stages(r).first;  // 96 / 12 = 8; the ends hold 7
  CHECK(map.chunk(0, 0).layers.size() == 7);
  CHECK(map.chunk(1, 0).layers.size() == 8);
  CHECK(map.chunk(3, 2).layers.size() == 7);
  CHECK(map.most_layers() == 24);
}

TEST_CASE("first and last counts leave the rest to the other stages") {
  auto r = rules(61, 4);
  r.first_layers = 13;
  CHECK(even_stages(r).first.layers_of(0).size() == 13);  // 48 over 3
  CHECK(even_stages(r).first.layers_of(3).size() == 16);
  r.last_layers = 14;  // 34 over 2
  CHECK(even_stages(r).first.layers_of(2).size() == 17);
  CHECK(even_stages(r).first.layers_of(3).size() == 14);
  r.last_layers = 13;  // 35 over 2
  CHECK_FALSE(even_stages(r).second.empty());
}

TEST_CASE("layout strings: repeats, parentheses, virtual stages from their number") {
  const auto [map, faults] = parse_stages("Et*4|(t*4|)*14tmL", rules(61, 2, 1, 1));
  REQUIRE(faults.empty());  // 4 + 14 x 4 + 1 layers in 16 chunks
  CHECK(map.vpp() == 8);
  CHECK(map.chunk(0, 0).layers.size() == 4);
  CHECK(map.chunk(1, 7).layers.size() == 1);
  CHECK(map.chunk(1, 7).mtp == 1);
  CHECK(map.loss_on(1));
  CHECK_FALSE(map.loss_on(0));
  CHECK(map.stage_of_layer(60) == 1);
  CHECK(parse_stages("Ett|(tt|)*30L", rules(62, 4)).first.text().size() > 0);
}

TEST_CASE("a layout string that cannot be is refused with the numbers or the place") {
  const auto message = [](const char* text, const StageRules& r) {
    const auto faults = parse_stages(text, r).second;
    return faults.empty() ? std::string() : faults.front().second;
  };
  CHECK(message("Ett|tL", rules(4, 2)) == "expected 4 layers (t) as the model has, got 3");
  CHECK(message("Ett|ttL", rules(4, 4)) ==
        "expected a multiple of the 4 pipeline stages as number of virtual stages, got 2");
  CHECK(message("tt|ttL", rules(4, 2)) == "expected one embedding (E), first");
  CHECK(message("Ett|tt", rules(4, 2)) == "expected one loss (L), last");
  CHECK(message("Ettm|ttL", rules(4, 2)) == "expected 0 MTP blocks (m) as the model has, got 1");
  CHECK(message("Emtt|ttL", rules(4, 2, 1, 1)) ==
        "expected MTP blocks (m) behind the last layer (t), whose output they read");
  CHECK(message("Et*x|tL", rules(4, 2)) == "character 4: expected a number >= 1 after '*', got 'x'");
  CHECK(message("E(tt|", rules(4, 2)) == "character 6: expected ')', got the end");
  CHECK(message("Eq", rules(4, 2)) == "character 2: expected E, t, m, L, '|' or '(', got 'q'");
  CHECK(message("E(((t*999999)*999999)*999999)*9L", rules(4, 2)) == "more than 65536 letters");
  CHECK_FALSE(message("", rules(4, 2)).empty());
}
