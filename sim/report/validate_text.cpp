#include <fmt/core.h>

#include <algorithm>

#include "report/format.h"
#include "report/report.h"
#include "report/validate_tables.h"

namespace moeplan::report {
namespace {

// A reason and its rows in full lines rather than in a table that no terminal holds.
std::string listed(const ValidationPart& part) {
  std::string text;
  for (const std::vector<std::string>& row : part.rows) {
    text += wrapped(fmt::format("  {:>3}  ", row[0]), row[1] + ": " + row[2]);
  }
  return text;
}

std::string markdown_cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::string markdown_table(const ValidationPart& part) {
  std::string head = "|", rule = "|", body;
  for (const Table::Column& column : part.columns) {
    head += " " + markdown_cell(column.head) + " |";
    rule += column.align == Align::right ? "---:|" : "---|";
  }
  for (const std::vector<std::string>& row : part.rows) {
    body += "|";
    for (const std::string& cell : row) body += " " + markdown_cell(cell) + " |";
    body += "\n";
  }
  return head + "\n" + rule + "\n" + body;
}

constexpr const char* kPreface =
    "# Predicted against measured\n"
    "\n"
    "Written by `moeplan validate RUNS.csv --markdown FILE`; do not edit. Each row is a training run that somebody "
    "published;\n"
    "[runs.md](runs.md) says how a row becomes a scenario, at which rank memory is compared, and which rows count.\n"
    "\n"
    "Errors are predicted / measured - 1. In summaries one row stands for a group (one layout of one model on one "
    "machine: the\n"
    "newest release); \"over\" and \"under\" count predictions above and below the measurement. Rows whose shares of "
    "experts are\n"
    "not stated (`natural`, `drop`) are simulated with log-normal shares, which is an assumption.\n";

}  // namespace

std::string validate_text(const search::Validation& validation) {
  std::string text = validation_sentence(validation) + "\n";
  for (const ValidationPart& part : validation_parts(validation)) {
    text += "\n" + part.title + (part.note.empty() ? "" : ": " + part.note) + "\n";
    if (part.columns.size() == 3) {
      text += listed(part);
      continue;
    }
    Table table(part.columns);
    for (const std::vector<std::string>& row : part.rows) table.add(row);
    text += table.text();
  }
  for (const std::string& note : validation.notes) text += "\n" + wrapped("Note  ", note);
  return text;
}

std::string validate_markdown(const search::Validation& validation) {
  std::string text = kPreface;
  text += "\n" + validation_sentence(validation) + ".\n";
  for (const ValidationPart& part : validation_parts(validation)) {
    text += "\n## " + part.title + "\n\n";
    if (!part.note.empty()) text += part.note + "\n\n";
    text += markdown_table(part);
  }
  return text;
}

}  // namespace moeplan::report
