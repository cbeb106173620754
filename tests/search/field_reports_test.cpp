#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "config/document.h"
#include "search/evaluate.h"
#include "support/scenarios.h"

// Runs that people reported (scenarios/field), against what tests/data/field/expectations.yaml says of them: verdicts,
// and figures where the report has any. What does not agree is listed there and in docs/limits.md, so that an
// improvement shows here.
using namespace moeplan;

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

config::Node expectations() { return config::load_yaml(MOEPLAN_SOURCE_DIR "/tests/data/field/expectations.yaml"); }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return text;
}

Settings settings_of(const config::Node& node, const std::string& key) {
  Settings settings;
  if (!node.has(key)) return settings;
  for (const std::string& name : node.at(key).keys()) settings.emplace_back(name, node.at(key).at(name).scalar());
  return settings;
}

search::Evaluation run(const std::string& id, const Settings& settings) {
  return search::evaluate(moeplan::test::scenario_file("field/" + lower(id) + ".yaml", settings));
}

bool agrees(const std::string& reported, const std::string& verdict) {
  if (reported == "RUNS") return verdict != "OOM";
  return reported == verdict;
}

double gib_of(const search::Evaluation& e, const std::string& of) {
  if (of == "allocated") return static_cast<double>(e.worst.peak.allocated_bytes) / kGib;
  if (of == "reserved") return static_cast<double>(e.worst.reserved_bytes) / kGib;
  if (of == "device") return static_cast<double>(e.worst.device_bytes()) / kGib;
  if (of == "failed") return e.failure ? static_cast<double>(e.failure->bytes) / kGib : 0;
  REQUIRE(of == "second_moment");  // of three fp32 states
  return static_cast<double>(e.worst.peak.by_kind[static_cast<std::size_t>(plan::TensorKind::optimizer)]) / kGib / 3;
}

void check_figure(const std::string& id, const Settings& settings, const search::Evaluation& e,
                  const config::Node& figure) {
  const std::string of = figure.at("of").scalar();
  double predicted = gib_of(e, of);
  if (figure.has("less")) {
    Settings other = settings;
    for (auto& setting : settings_of(figure, "less")) other.push_back(std::move(setting));
    predicted -= gib_of(run(id, other), of);
  }
  const double reported = std::stod(figure.at("reported").scalar());
  const double error = 100 * (predicted / reported - 1);
  const std::vector<config::Node> range = figure.at("error_percent").items();
  REQUIRE(range.size() == 2);
  MESSAGE(id << ": " << of << " reported " << reported << " GiB, predicted " << predicted << ", " << error << " %");
  CHECK(error >= std::stod(range[0].scalar()));
  CHECK(error <= std::stod(range[1].scalar()));
}

}  // namespace

TEST_CASE("reports from the field: verdicts, figures and failing allocations are those that are written down") {
  const std::string limits = base::read_text(MOEPLAN_SOURCE_DIR "/docs/limits.md");
  const config::Node reports = expectations().at("reports");
  int cases = 0, disagreeing = 0;
  for (const std::string& id : reports.keys()) {
    for (const config::Node& one : reports.at(id).items()) {
      const std::string what = one.at("what").scalar(), reported = one.at("reported").scalar();
      CAPTURE(id);
      CAPTURE(what);
      const Settings settings = settings_of(one, "set");
      const search::Evaluation e = run(id, settings);
      const std::string verdict = search::verdict_name(e.fit.verdict);
      CHECK(verdict == one.at("verdict").scalar());
      ++cases;
      const bool agree = agrees(reported, verdict);
      CHECK(agree != one.has("mechanism"));
      if (!agree) {
        ++disagreeing;
        CHECK(limits.find(fmt::format("| {} | {} |", id, what)) != std::string::npos);
      }
      if (one.has("failing")) {
        const config::Node failing = one.at("failing");
        REQUIRE(e.failure.has_value());
        CHECK(e.failure->iteration == std::stol(failing.at("iteration").scalar()));
        if (failing.has("op")) CHECK(e.failure->op == failing.at("op").scalar());
      }
      if (!one.has("figures")) continue;
      for (const config::Node& figure : one.at("figures").items()) check_figure(id, settings, e, figure);
    }
  }
  const std::string counts = fmt::format("{} runs of {} reports", cases, reports.keys().size());
  MESSAGE(counts << ", " << disagreeing << " verdicts do not agree");
  CHECK(limits.find(counts) != std::string::npos);
  CHECK(limits.find(fmt::format("{} verdicts do not agree", disagreeing)) != std::string::npos);
}

TEST_CASE("every report with a model, a machine, a layout and a figure is a scenario or has its reason in the limits") {
  const std::string limits = base::read_text(MOEPLAN_SOURCE_DIR "/docs/limits.md");
  const config::Node root = expectations();
  const std::vector<std::string> written = root.at("reports").keys();
  std::set<std::string> known(written.begin(), written.end());
  for (const config::Node& id : root.at("not_written").items()) {
    CAPTURE(id.scalar());
    CHECK(known.insert(id.scalar()).second);
    CHECK(limits.find(fmt::format("| {} |", id.scalar())) != std::string::npos);
  }
  for (const char* id : {"FR001", "FR002", "FR022", "FR024", "FR025", "FR026", "FR028", "FR039", "FR045",
                         "FR049", "FR053", "FR054", "FR055", "FR056", "FR058", "FR060", "FR063", "FR064",
                         "FR068", "FR069", "FR070", "FR084", "FR093", "FR101", "FR103"}) {
    CAPTURE(id);
    CHECK(known.contains(id));
  }
}
