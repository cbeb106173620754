#pragma once
#include <string>
#include <vector>

#include "report/table.h"
#include "search/validate.h"

namespace moeplan::report {

// What a validation shows, once: text and Markdown differ in the rules of their tables only.
struct ValidationPart {
  std::string title;
  std::string note;  // below the title; may be empty
  std::vector<Table::Column> columns;
  std::vector<std::vector<std::string>> rows;
};

// "24 of 298 rows simulated, 3 skipped, 1 with errors; 18 stand in the summaries".
std::string validation_sentence(const search::Validation& validation);

// Error summaries by metric (those that have any), rank by rank, every row, and why rows were left out.
std::vector<ValidationPart> validation_parts(const search::Validation& validation);

// "+1.2 %", with one more digit below 1 %; "-" for nothing.
std::string signed_percent(const std::optional<double>& fraction);

}  // namespace moeplan::report
