#include "measurements/read_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/file.h"
#include "base/nearest.h"
#include "measurements/device_lines.h"

namespace moeplan::measurements {
namespace {

using Json = nlohmann::json;

bool has(const std::vector<std::string>& columns, std::string_view name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

std::string file_stem(const std::string& file) {
  const std::size_t slash = file.find_last_of('/');
  const std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
  return name.substr(0, name.find('.'));
}

// Ids are the table's own, or the line.
void add_row(Measurement row, MeasurementTable& table) {
  for (const char* column : {"case_id", "id"}) {
    const auto cell = row.cells.find(std::string_view(column));
    if (cell != row.cells.end() && !cell->second.text.empty()) row.id = cell->second.text;
  }
  if (row.id.empty()) row.id = fmt::format("{}:{}", file_stem(table.file), row.where.line);
  read_fields(row);
  table.rows.push_back(std::move(row));
}

// In one note; a name that may be a slip for a column that the table has not comes with that column.
void note_unknown(MeasurementTable& table) {
  std::vector<std::string> wanted, unknown;
  for (const std::string& name : known_columns()) {
    if (!has(table.columns, name)) wanted.push_back(name);
  }
  for (const std::string& name : table.columns) {
    if (has(known_columns(), name) || has(device_columns(), name)) continue;
    const std::string hint = base::nearest_hint(name, wanted);
    unknown.push_back(base::shown_cell(name) + (hint.empty() ? "" : " (" + hint + ")"));
  }
  if (!unknown.empty()) table.notes.push_back("columns that are not read: " + base::join_names(unknown));
}

void read_header(const std::vector<base::CsvCell>& cells, MeasurementTable& table) {
  base::Faults faults;
  for (const base::CsvCell& cell : cells) {
    std::string name(cell.text);
    if (has(table.columns, name)) {
      faults.add({table.file, cell.line, cell.column, {}}, "column '" + base::shown_cell(name) + "' stands twice");
    }
    table.columns.push_back(std::move(name));
  }
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return has(table.columns, name); });
  };
  const char* expected =
      "a table of measurements has a header with gpu, what was timed (op, kind or collective, or m, n and k), its "
      "shape "
      "and its time (time_us)";
  if (!any({"gpu", "gpu_as_commented"})) faults.add({table.file, 1, 0, {}}, "a column is missing: gpu", expected);
  if (!any({"op", "kind", "collective", "title", "m", "head_dim"})) {
    faults.add({table.file, 1, 0, {}}, "no column says what was timed", expected);
  }
  if (!any({"time_us", "time_ms_derived", "oop_us", "tflops", "efficiency"})) {
    faults.add({table.file, 1, 0, {}}, "no column holds a time or a rate", expected);
  }
  faults.throw_if_any();
}

void parse_csv(std::string_view text, MeasurementTable& table) {
  base::CsvReader csv(text, table.file);
  std::vector<base::CsvCell> cells;
  if (!csv.next(cells)) throw base::Error({table.file, 0, 0, {}}, "the file is empty");
  read_header(cells, table);
  while (csv.next(cells)) {
    if (cells.size() == 1 && cells[0].text.empty()) continue;
    Measurement row;
    row.where = {table.file, csv.line(), 0, {}};
    for (std::size_t i = 0; i < std::min(cells.size(), table.columns.size()); ++i) {
      row.cells[table.columns[i]] = {std::string(cells[i].text),
                                     {table.file, cells[i].line, cells[i].column, table.columns[i]}};
    }
    if (cells.size() != table.columns.size()) {
      row.faults.push_back(
          {row.where, fmt::format("{} cells, but the header has {}", cells.size(), table.columns.size()), {}, {}});
    }
    add_row(std::move(row), table);
  }
}

// A scalar as a CSV cell would hold it, and a list of scalars with semicolons; nothing for anything else.
std::optional<std::string> cell_text(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number()) return value.dump();
  if (!value.is_array()) return std::nullopt;
  std::string joined;
  for (const Json& item : value) {
    const std::optional<std::string> text = item.is_array() ? std::nullopt : cell_text(item);
    if (!text) return std::nullopt;
    joined += (joined.empty() ? "" : ";") + *text;
  }
  return joined;
}

void parse_json_line(std::string_view line, int number, DeviceReader& device, MeasurementTable& table) {
  Measurement row;
  row.where = {table.file, number, 0, {}};
  const auto broken = [&](int column, const std::string& message) {
    row.faults.push_back({{table.file, number, column, {}}, message, "one JSON object a line", {}});
  };
  Json object;
  try {
    object = Json::parse(line);
  } catch (const Json::parse_error& error) {
    broken(static_cast<int>(error.byte), "the line is no JSON");
  } catch (const Json::out_of_range&) {
    broken(1, "a number is too large");
  }
  if (row.faults.empty() && !object.is_object()) broken(1, "expected a JSON object");
  if (row.faults.empty()) {
    for (const auto& [key, value] : object.items()) {
      const std::size_t at = line.find("\"" + key + "\"");
      const base::Where where{table.file, number, at == std::string_view::npos ? 0 : static_cast<int>(at) + 1, key};
      const std::optional<std::string> text = cell_text(value);
      if (!text) row.faults.push_back({where, "expected a number, a text or a list of numbers", {}, {}});
      row.cells[key] = {text.value_or(""), where};
    }
  }
  if (!device.is_row(row)) return;
  for (const auto& [key, cell] : row.cells) {
    if (!has(table.columns, key)) table.columns.push_back(key);
  }
  add_row(std::move(row), table);
}

void parse_json_lines(std::string_view text, MeasurementTable& table) {
  int number = 0;
  auto lines = std::make_shared<DeviceLines>();
  DeviceReader device(*lines);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) parse_json_line(line, number, device, table);
  }
  device.finish(table.file);
  table.device = std::move(lines);
}

}  // namespace

MeasurementTable parse_measurements(std::string_view text, const std::string& file) {
  MeasurementTable table;
  table.file = file;
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) throw base::Error({file, 0, 0, {}}, "the file is empty");
  if (text[first] == '{') {
    parse_json_lines(text, table);
  } else {
    parse_csv(text, table);
  }
  // The checks of a device are an answer of their own.
  const bool answers = table.device != nullptr && (!table.device->values.empty() || table.device->checks > 0);
  if (table.rows.empty() && !answers) {
    if (table.device != nullptr && !table.device->set_aside.empty()) throw base::Error(table.device->set_aside);
    throw base::Error({file, 1, 0, {}},
                      text[first] == '{' ? "no line is a measurement, a value or a check" : "no rows after the header");
  }
  note_unknown(table);
  return table;
}

MeasurementTable read_measurements(const std::string& path) {
  return parse_measurements(base::read_text(path, kMostFileBytes), path);
}

void keep_where(MeasurementTable& table, const std::string& column, const std::string& value,
                const std::string& option) {
  if (!has(table.columns, column)) {
    throw base::Error({option, 0, 0, {}}, fmt::format("the table has no column '{}'", column),
                      base::nearest_hint(column, table.columns));
  }
  std::erase_if(table.rows, [&](const Measurement& row) {
    const auto cell = row.cells.find(column);
    return cell == row.cells.end() || cell->second.text != value;
  });
}

}  // namespace moeplan::measurements
