#include "runs/run_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/csv.h"
#include "base/file.h"
#include "base/nearest.h"
#include "runs/run_cells.h"

namespace moeplan::runs {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
// Without these no row says what ran.
constexpr std::string_view kMandatory[] = {"id", "model", "gpu", "gpus", "gbs", "seq_len"};

std::vector<std::string> read_header(const std::vector<base::CsvCell>& cells, RunTable& table) {
  base::Faults faults;
  std::vector<std::string> names;
  for (const base::CsvCell& cell : cells) {
    std::string name(cell.text);
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      faults.add({table.file, cell.line, cell.column, {}}, "column '" + base::shown_cell(name) + "' stands twice");
    }
    names.push_back(std::move(name));
  }
  std::vector<std::string> missing;
  for (const std::string_view name : kMandatory) {
    if (std::find(names.begin(), names.end(), name) == names.end()) missing.emplace_back(name);
  }
  if (!missing.empty()) {
    faults.add(
        {table.file, 1, 0, {}},
        fmt::format("{} missing: {}", missing.size() == 1 ? "a column is" : "columns are", base::join_names(missing)),
        "a table of measured runs has a header with id, model, gpu, gpus, gbs, seq_len and more");
  }
  faults.throw_if_any();
  return names;
}

void note_unknown(RunTable& table) {
  const std::vector<std::string> known = column_names();
  for (const std::string& name : table.columns) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string hint = base::nearest_hint(name, known);
    table.notes.push_back(
        fmt::format("column '{}' is not read{}", base::shown_cell(name), hint.empty() ? "" : " (" + hint + ")"));
  }
}

}  // namespace

base::Where Run::place(std::string_view column) const {
  const auto cell = cells.find(column);
  return cell == cells.end() ? where : cell->second.where;
}

RunTable parse_runs(std::string_view text, const std::string& file) {
  RunTable table;
  table.file = file;
  base::CsvReader csv(text, file);
  std::vector<base::CsvCell> cells;
  if (!csv.next(cells)) throw base::Error({file, 0, 0, {}}, "the file is empty");
  table.columns = read_header(cells, table);
  note_unknown(table);
  std::map<std::string, base::Where> ids;
  while (csv.next(cells)) {
    if (cells.size() == 1 && cells[0].text.empty()) continue;
    Run run;
    run.where = {file, csv.line(), 0, {}};
    for (std::size_t i = 0; i < std::min(cells.size(), table.columns.size()); ++i) {
      run.cells[table.columns[i]] = {std::string(cells[i].text),
                                     {file, cells[i].line, cells[i].column, table.columns[i]}};
    }
    if (cells.size() != table.columns.size()) {
      run.faults.push_back(
          {run.where, fmt::format("{} cells, but the header has {}", cells.size(), table.columns.size()), {}, {}});
    }
    read_cells(run);
    const auto [first, is_new] = ids.emplace(run.id, run.where);
    if (!is_new) {
      run.faults.push_back({run.place("id"), fmt::format("the id stands in line {} too", first->second.line), {}, {}});
    }
    table.runs.push_back(std::move(run));
  }
  if (table.runs.empty()) throw base::Error({file, 1, 0, {}}, "no rows after the header");
  return table;
}

RunTable read_runs(const std::string& path) { return parse_runs(base::read_text(path, kMostBytes), path); }

void keep_where(RunTable& table, const std::string& column, const std::string& value, const std::string& option) {
  if (std::find(table.columns.begin(), table.columns.end(), column) == table.columns.end()) {
    throw base::Error({option, 0, 0, {}}, fmt::format("the table has no column '{}'", column),
                      base::nearest_hint(column, table.columns));
  }
  std::erase_if(table.runs, [&](const Run& run) {
    const auto cell = run.cells.find(column);
    return cell == run.cells.end() || cell->second.text != value;
  });
}

}  // namespace moeplan::runs
