#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "config/document.h"
#include "search/evaluate.h"
#include "support/scenarios.h"

// Runs that people reported (scenarios/field), against what tests/data/field/expectations.yaml says of them. What does
// not agree has its reason there and stands in docs/limits.md, so that an improvement shows in both.
using namespace moeplan;

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kTolerancePercent = 5;
const std::string kLimits = MOEPLAN_SOURCE_DIR "/docs/limits.md";
const std::string kBegin = "<!-- field reports: written by the test -->\n", kEnd = "<!-- end of field reports -->\n";

config::Node expectations() { return config::load_yaml(MOEPLAN_SOURCE_DIR "/tests/data/field/expectations.yaml"); }

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
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

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / kGib; }

double gib_of(const search::Evaluation& e, const std::string& of) {
  if (of == "allocated") return gib(e.worst.peak.allocated_bytes);
  if (of == "reserved") return gib(e.worst.reserved_bytes);
  if (of == "device") return gib(e.worst.device_bytes());
  REQUIRE(of == "second_moment");  // of three fp32 states
  return gib(e.worst.peak.by_kind[static_cast<std::size_t>(plan::TensorKind::optimizer)]) / 3;
}

// What the section of docs/limits.md holds.
struct Tables {
  std::string verdicts, figures, failing;
  int runs = 0, ran_out = 0, disagreeing = 0, disagreeing_ran_out = 0;
};

void add_figure(Tables& tables, const std::string& id, const std::string& what, const Settings& settings,
                const search::Evaluation& e, const config::Node& figure) {
  std::string of = figure.at("of").scalar();
  double predicted = gib_of(e, of);
  if (figure.has("less")) {
    Settings other = settings;
    for (auto& setting : settings_of(figure, "less")) other.push_back(std::move(setting));
    predicted -= gib_of(run(id, other), of);
    of += ", less that with";
    for (const auto& [key, value] : settings_of(figure, "less")) of += fmt::format(" {} {}", key, value);
  }
  const double reported = std::stod(figure.at("reported").scalar());
  const double error = 100 * (predicted / reported - 1);
  CAPTURE(of);
  CAPTURE(error);
  CHECK((std::abs(error) > kTolerancePercent) == figure.has("note"));
  std::replace(of.begin(), of.end(), '_', ' ');
  tables.figures += fmt::format("| {} | {} | {} | {:.2f} | {:.2f} | {:+.1f} % | {} |\n", id, what, of, reported,
                                predicted, error, figure.has("note") ? figure.at("note").scalar() : "");
}

void add_failing(Tables& tables, const std::string& id, const std::string& what, const search::Evaluation& e,
                 const std::string& reported) {
  std::string predicted = "nothing fails";
  if (e.failure) {
    const memory::AllocationFailure& f = *e.failure;
    predicted = fmt::format("{}, {:.2f} GiB, at {} of iteration {}", f.tensor, gib(f.bytes), f.op, f.iteration + 1);
  }
  tables.failing += fmt::format("| {} | {} | {} | {} |\n", id, what, reported, predicted);
}

void add_run(Tables& tables, const std::string& id, const config::Node& one) {
  const std::string what = one.at("what").scalar(), reported = one.at("reported").scalar();
  CAPTURE(id);
  CAPTURE(what);
  const Settings settings = settings_of(one, "set");
  const search::Evaluation e = run(id, settings);
  const std::string verdict = search::verdict_name(e.fit.verdict);
  const bool agree = agrees(reported, verdict), ran_out = reported == "OOM";
  ++tables.runs;
  tables.ran_out += ran_out ? 1 : 0;
  CAPTURE(verdict);
  CHECK(agree != one.has("mechanism"));
  if (!agree && one.has("mechanism")) {
    ++tables.disagreeing;
    tables.disagreeing_ran_out += ran_out ? 1 : 0;
    tables.verdicts += fmt::format("| {} | {} | {} | {}, {:.0f} of {:.0f} GiB | {} |\n", id, what, reported, verdict,
                                   gib(e.fit.device_bytes), gib(e.fit.capacity_bytes), one.at("mechanism").scalar());
  }
  if (one.has("failing")) add_failing(tables, id, what, e, one.at("failing").scalar());
  if (!one.has("figures")) return;
  for (const config::Node& figure : one.at("figures").items()) add_figure(tables, id, what, settings, e, figure);
}

std::string section_of(const Tables& tables, const config::Node& root) {
  std::string text = fmt::format(
      "{} runs of {} reports; {} verdicts do not agree: {} of the {} runs that were out of memory, {} of the {} that "
      "ran.\n\n",
      tables.runs, root.at("reports").keys().size(), tables.disagreeing, tables.disagreeing_ran_out, tables.ran_out,
      tables.disagreeing - tables.disagreeing_ran_out, tables.runs - tables.ran_out);
  text +=
      "Verdicts that do not agree:\n\n| report | run | reported | predicted | what is missing, as far as we see |\n";
  text += "|---|---|---|---|---|\n" + tables.verdicts;
  text += "\nWhat failed, where the report says it:\n\n| report | run | reported | predicted |\n|---|---|---|---|\n";
  text += tables.failing;
  text += "\nFigures of memory, GiB:\n\n| report | run | figure | reported | predicted | error | above 5 %: why |\n";
  text += "|---|---|---|---|---|---|---|\n" + tables.figures;
  text += "\nNot written as a scenario:\n\n| report | what it is, and why not |\n|---|---|\n";
  const config::Node absent = root.at("not_written");
  for (const std::string& id : absent.keys()) text += fmt::format("| {} | {} |\n", id, absent.at(id).scalar());
  return text;
}

}  // namespace

TEST_CASE("golden: reports from the field agree, or docs/limits.md says why not") {
  const config::Node root = expectations();
  const config::Node reports = root.at("reports");
  Tables tables;
  for (const std::string& id : reports.keys())
    for (const config::Node& one : reports.at(id).items()) add_run(tables, id, one);
  const std::string section = section_of(tables, root);

  std::string limits = base::read_text(kLimits);
  const std::size_t begin = limits.find(kBegin), end = limits.find(kEnd);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const std::size_t from = begin + kBegin.size();
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update != nullptr && std::string_view(update) == "1") {
    limits.replace(from, end - from, section);
    std::ofstream(kLimits, std::ios::binary) << limits;
    return;
  }
  CHECK_MESSAGE(limits.substr(from, end - from) == section,
                "docs/limits.md is not current; write it with: UPDATE_GOLDEN=1 ctest --preset dev -R golden\n"
                    << section);
}

TEST_CASE("every report with a model, a machine, a layout and a figure is a scenario or has its reason") {
  const config::Node root = expectations();
  const std::vector<std::string> written = root.at("reports").keys();
  std::set<std::string> known(written.begin(), written.end());
  for (const std::string& id : root.at("not_written").keys()) {
    CAPTURE(id);
    CHECK(known.insert(id).second);
  }
  for (const char* id : {"FR001", "FR002", "FR022", "FR024", "FR025", "FR026", "FR028", "FR039", "FR045",
                         "FR049", "FR053", "FR054", "FR055", "FR056", "FR058", "FR060", "FR063", "FR064",
                         "FR068", "FR069", "FR070", "FR084", "FR093", "FR101", "FR103"}) {
    CAPTURE(id);
    CHECK(known.contains(id));
  }
}
