#include <fmt/core.h>

#include <array>
#include <cmath>

#include "base/csv.h"
#include "measurements/collective_table.h"
#include "measurements/log_line.h"
#include "topology/collective_entries.h"

namespace moeplan::measurements {
namespace {

enum Column { kCollective, kRanks, kNodes, kSize, kTime, kGpu, kColumns };
constexpr std::array<std::array<std::string_view, 2>, kColumns> kNames = {
    {{"collective", ""}, {"ranks", "n_gpus"}, {"nodes", "n_nodes"}, {"size_bytes", ""}, {"time_us", ""}, {"gpu", ""}}};
using Places = std::array<int, kColumns>;

Places places_of(const std::vector<base::CsvCell>& header) {
  Places places;
  places.fill(-1);
  for (std::size_t i = 0; i < header.size(); ++i) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      const bool named = header[i].text == kNames[column][0] || header[i].text == kNames[column][1];
      if (named && !header[i].text.empty()) places[column] = static_cast<int>(i);
    }
  }
  return places;
}

bool whole(const Places& places) { return places[kCollective] >= 0 && places[kSize] >= 0 && places[kTime] >= 0; }

}  // namespace

bool is_collective_csv(std::string_view text) {
  if (text.substr(0, text.find('\n')).find(',') == std::string_view::npos) return false;
  try {
    base::CsvReader reader(text, "");
    std::vector<base::CsvCell> header;
    return reader.next(header) && whole(places_of(header));
  } catch (const base::Error&) {
    return false;
  }
}

CollectiveLog read_collective_csv(std::string_view text, const std::string& file, const Stated& stated) {
  CollectiveLog log;
  base::CsvReader reader(text, file);
  std::vector<base::CsvCell> cells;
  if (!reader.next(cells)) return log;
  const Places places = places_of(cells);
  const std::size_t columns = cells.size();
  while (reader.next(cells)) {
    if (cells.size() == 1 && cells[0].text.empty()) continue;
    const auto set_aside = [&](std::string why) {
      log.set_aside.push_back({{file, reader.line(), 0, {}}, std::move(why), {}, {}});
    };
    if (cells.size() != columns) {
      set_aside(fmt::format("expected {} cells, got {}", columns, cells.size()));
      continue;
    }
    const auto cell = [&](Column column) {
      return places[column] < 0 ? std::string_view() : cells[static_cast<std::size_t>(places[column])].text;
    };
    const auto kind = topology::collective_kind(cell(kCollective));
    if (!kind || cell(kTime).empty()) continue;  // other operations, and rates without a time
    const auto size = number_of(cell(kSize)), time = number_of(cell(kTime));
    const auto ranks = cell(kRanks).empty() ? std::optional(stated.ranks) : integer_of(cell(kRanks));
    const auto nodes = cell(kNodes).empty() ? std::optional(stated.nodes) : integer_of(cell(kNodes));
    if (!size || !(*size >= 1) || *size > 1e18 || !time || !(*time > 0)) {
      set_aside(fmt::format("expected a size and a time above 0, got '{}' and '{}'", base::shown_cell(cell(kSize)),
                            base::shown_cell(cell(kTime))));
      continue;
    }
    if (!ranks || *ranks < 2 || *ranks > 1'000'000 || !nodes || *nodes < 0 || *nodes > *ranks) {
      set_aside(fmt::format("expected ranks from 2 and nodes among them, got '{}' and '{}'",
                            base::shown_cell(cell(kRanks)), base::shown_cell(cell(kNodes))));
      continue;
    }
    CollectiveRow row;
    row.collective = std::string(cell(kCollective));
    row.ranks = *ranks;
    row.nodes = *nodes;
    row.gpu = cell(kGpu).empty() ? stated.gpu : std::string(cell(kGpu));
    row.size_bytes = *size;
    row.time_s = *time / 1e6;
    row.where = {file, reader.line(), 0, {}};
    log.rows.push_back(std::move(row));
  }
  return log;
}

}  // namespace moeplan::measurements
