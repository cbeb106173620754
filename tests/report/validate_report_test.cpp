#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "report/report.h"
#include "report/validate_tables.h"
#include "search/validate_summary.h"

using namespace moeplan;
using namespace moeplan::report;

namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

// Two simulated rows, one of which has figures a rank, and one that was left out.
search::Validation small_validation() {
  search::Validation validation;
  validation.file = "/somewhere/runs.csv";
  validation.rows.resize(3);
  for (std::size_t i = 0; i < 3; ++i) {
    search::ValidationRow& row = validation.rows[i];
    row.run.id = "R" + std::to_string(i);
    row.run.group = row.run.id;
    row.run.model = i == 0 ? "a|b" : "c";
    row.run.cells["model"] = {row.run.model, {}};
    row.run.gpus = 8;
    row.run.gpu = "box";
    row.judges_time = row.judges_memory = true;
    row.scope = "rank 0";
  }
  validation.rows[0].step_time_s = {2.0, 1.9};
  validation.rows[0].peak_allocated_bytes = {10.0 * kGibibyte, 10.05 * kGibibyte};
  validation.rows[0].ranks = {{0, {kGibibyte, 1.1 * kGibibyte}, {kGibibyte, std::nullopt}}};
  validation.rows[1].step_time_s = {1.0, 1.5};
  validation.rows[2].status = runs::RunStatus::skipped;
  validation.rows[2].reason = "something is missing";
  search::add_summaries(validation);
  return validation;
}

bool states(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("percentages are signed, with two digits below ten") {
  CHECK(signed_percent(std::nullopt) == "-");
  CHECK(signed_percent(0.0512) == "+5.12 %");
  CHECK(signed_percent(-0.0512) == "-5.12 %");
  CHECK(signed_percent(0.25) == "+25.0 %");
}

TEST_CASE("validation as text: counts first, then summaries, rows and reasons") {
  const std::string text = validate_text(small_validation());
  CHECK(text.starts_with("2 of 3 rows simulated, 1 skipped, 0 with errors; 2 stand in the summaries"));
  // Errors -5 % and +50 %: mean of sizes 27.5, signed 22.5.
  CHECK(states(text, "27.5 %"));
  CHECK(states(text, "+22.5 %"));
  CHECK(states(text, "1 / 1"));
  CHECK(states(text, "R0   a|b    8 box  rank 0  allocated    10.000     10.050  +0.50 %"));
  CHECK(states(text, "something is missing: R2"));
  CHECK_FALSE(states(text, "Peak reserved"));  // nobody predicts it
}

TEST_CASE("validation as Markdown: the same tables, with bars in cells escaped") {
  const std::string text = validate_markdown(small_validation());
  CHECK(text.starts_with("# Predicted against measured\n"));
  CHECK(states(text, "| R0 | a\\|b | 8 box | rank 0 | allocated | 10.000 | 10.050 | +0.50 % |"));
  CHECK(states(text, "| 1 | something is missing | R2 |"));
}

TEST_CASE("validation as JSON: every row, null where nothing is measured or predicted") {
  const auto json = nlohmann::json::parse(validate_json(small_validation()));
  CHECK(json["schema"] == "moeplan.validate/1");
  CHECK(json["table"] == "runs.csv");
  CHECK(json["rows"].size() == 3);
  const auto& row = json["rows"][0];
  CHECK(row["peak_allocated_bytes"]["error"].get<double>() == doctest::Approx(0.005));
  CHECK(row["ranks"][0]["allocated"]["predicted"].get<double>() == doctest::Approx(1.1 * kGibibyte));
  CHECK(row["ranks"][0]["reserved"]["predicted"].is_null());
  CHECK(row["peak_device_bytes"]["measured"].is_null());
  CHECK(json["rows"][2]["reason"] == "something is missing");
  CHECK(json["summary"]["skipped"] == 1);
  CHECK(json["summary"]["by"][0]["step_time_s"]["n"] == 2);
  CHECK(json["summary"]["by"][0]["step_time_s"]["worst"]["id"] == "R1");
  CHECK(json["summary"]["by"][0]["peak_reserved_bytes"].is_null());
}
