#include "search/option_pairs.h"

#include <doctest/doctest.h>

#include <map>

#include "search/validate.h"

using namespace moeplan;
using namespace moeplan::search;

namespace {

ValidationRow row(const std::string& id, std::map<std::string, std::string> cells, double measured, double predicted) {
  ValidationRow result;
  result.run.id = id;
  result.run.group = "g";
  cells.emplace("release", "1");
  cells.emplace("notes", "of " + id);  // says something about the row: no difference
  for (const auto& [column, text] : cells) result.run.cells[column] = {text, {}};
  result.step_time_s = {measured, predicted};
  return result;
}

}  // namespace

TEST_CASE("runs that differ in one option are a pair, and the signs of both changes are compared") {
  const auto pairs = option_pairs({row("a", {{"recompute", "none"}}, 10, 9),
                                   row("b", {{"recompute", "full"}, {"recompute_modules", "uniform"}}, 13, 12),
                                   row("c", {{"recompute", "none"}, {"dispatcher", "deepep"}}, 8, 9.5)});
  REQUIRE(pairs.size() == 1);  // c states a dispatcher where a does not, and differs from b in two options
  CHECK(pairs[0].option == "recompute");
  CHECK(pairs[0].from_id == "a");
  CHECK(pairs[0].to_id == "b");
  CHECK(pairs[0].from == "none");
  CHECK(pairs[0].to == "full uniform");
  CHECK(pairs[0].measured == doctest::Approx(0.3));
  CHECK(pairs[0].predicted == doctest::Approx(12.0 / 9 - 1));
  CHECK(pairs[0].tells);
  CHECK(pairs[0].right);
}

TEST_CASE("a change of less than 2 % tells nothing, and one of the other sign is wrong") {
  const auto change = [](double measured, double predicted) {
    return option_pairs(
               {row("a", {{"ep_overlap", "off"}}, 1, 1), row("b", {{"ep_overlap", "on"}}, measured, predicted)})
        .at(0);
  };
  CHECK_FALSE(change(0.981, 0.9).tells);
  CHECK(change(0.979, 0.9).tells);
  CHECK_FALSE(change(1.019, 0.9).tells);
  CHECK(change(1.021, 0.9).tells);
  CHECK_FALSE(change(1.021, 0.9).right);
  CHECK(change(1.021, 1.001).right);
  CHECK_FALSE(change(1.021, 1.0).right);  // no change predicted
}

TEST_CASE("other groups and releases, rows judged on memory alone and rows without a time are no pair") {
  const ValidationRow a = row("a", {{"ep_overlap", "off"}}, 1, 1);
  const auto pairs_with = [&](auto change) {
    ValidationRow b = row("b", {{"ep_overlap", "on"}}, 2, 2);
    change(b);
    return option_pairs({a, b}).size();
  };
  CHECK(pairs_with([](ValidationRow&) {}) == 1);
  CHECK(pairs_with([](ValidationRow& b) { b.run.group = "h"; }) == 0);
  CHECK(pairs_with([](ValidationRow& b) { b.run.cells["release"].text = "2"; }) == 0);
  CHECK(pairs_with([](ValidationRow& b) { b.run.use = "mem"; }) == 0);
  CHECK(pairs_with([](ValidationRow& b) { b.run.use = "ratio ladder"; }) == 1);
  CHECK(pairs_with([](ValidationRow& b) { b.step_time_s.measured.reset(); }) == 0);
  CHECK(pairs_with([](ValidationRow& b) { b.status = runs::RunStatus::skipped; }) == 0);
  CHECK(pairs_with([](ValidationRow& b) { b.run.cells.erase("ep_overlap"); }) == 0);  // not stated
}
