#include "measurements/bench_table.h"

#include <cmath>
#include <optional>

#include "base/units.h"

namespace moeplan::measurements {
namespace {

std::vector<std::string_view> cells_of(std::string_view text) {
  std::vector<std::string_view> cells;
  text.remove_prefix(1);
  while (!text.empty()) {
    const std::size_t end = text.find('|');
    cells.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (trimmed(text).empty()) break;
  }
  return cells;
}

// GB/s of "1.44GBps", "11.5Gbps" or "1.44 GB/s".
std::optional<double> bandwidth_of(std::string_view text) {
  std::string unit(text);
  if (unit.ends_with("ps")) unit.replace(unit.size() - 2, 2, "/s");
  const std::optional<double> rate = base::parse_quantity(unit, base::Dimension::bytes_per_second);
  return rate ? std::optional(*rate / 1e9) : std::nullopt;
}

}  // namespace

bool MarkdownTable::line(std::string_view text, int number) {
  if (!text.starts_with('|')) {
    // "The average bandwidth of all_reduce over 8 ranks (20 warmups / 5 trials):"
    if (text.find("average bandwidth of") == std::string_view::npos) return false;
    const std::vector<std::string_view> words = words_of(text);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i + 1].starts_with("ranks")) ranks = integer_of(words[i]).value_or(0);
    }
    return true;
  }
  const std::vector<std::string_view> cells = cells_of(text);
  int payload = -1, busbw = -1, algbw = -1;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const int at = static_cast<int>(i);
    if (cells[i] == "payload") payload = at;
    if (cells[i] == "busbw") busbw = at;
    if (cells[i] == "algbw") algbw = at;
  }
  if (payload >= 0 && algbw >= 0) {
    payload_ = payload;
    busbw_ = busbw;
    algbw_ = algbw;
    collective = "all_reduce";  // the only collective that the program times
    return true;
  }
  if (payload_ < 0) return false;  // another table
  if (text.find_first_not_of("|-: \t") == std::string_view::npos) return true;
  const auto cell = [&](int at) {
    return at >= 0 && at < static_cast<int>(cells.size()) ? cells[static_cast<std::size_t>(at)] : std::string_view();
  };
  const std::optional<double> size = base::parse_quantity(cell(payload_), base::Dimension::bytes);
  const std::optional<double> algorithm = bandwidth_of(cell(algbw_));
  const std::optional<double> bus = bandwidth_of(cell(busbw_));
  if (!size || *size < 1 || *size > 1e18 || !algorithm || *algorithm <= 0) {
    set_aside.emplace_back(number, "expected a payload such as 32KiB and a bandwidth above 0 such as 1.44GBps");
    return true;
  }
  TimedLine row;
  row.line = number;
  row.timing.size = std::llround(*size);
  row.timing.time_us = *size / *algorithm / 1e3;
  row.timing.algbw = *algorithm;
  row.timing.busbw = bus.value_or(0);
  row.timing.half_digit = half_digit_of(cell(algbw_));
  row.timing.bandwidths = bus.has_value();
  lines.push_back(row);
  return true;
}

void HcclTable::launched(const std::string& program, std::int64_t processes, std::int64_t on_a_node) {
  if (!lines.empty()) return;
  collective = program;
  ranks = processes > 0 ? processes : on_a_node;
  per_node = on_a_node;
}

bool HcclTable::line(std::string_view text, int number) {
  if (text.find("data_size") != std::string_view::npos && text.find("alg_bandwidth") != std::string_view::npos) {
    open_ = true;
    return true;
  }
  if (!open_) return false;
  std::string plain(text);
  for (char& c : plain)
    if (c == '|') c = ' ';
  const std::vector<std::string_view> words = words_of(plain);
  const std::optional<std::int64_t> size = words.empty() ? std::nullopt : integer_of(words[0]);
  if (!size) return false;
  if (*size == 0) return true;
  const double time_us = words.size() < 4 ? 0 : number_of(words[1]).value_or(0);
  const double bandwidth = words.size() < 4 ? -1 : number_of(words[2]).value_or(-1);
  if (time_us <= 0 || bandwidth < 0) {
    set_aside.emplace_back(number, "the row is cut: expected a size, a time, a bandwidth and a result");
    return true;
  }
  if (words[3] == "failed") {
    set_aside.emplace_back(number, "the result was wrong");
    return true;
  }
  const double expected = static_cast<double>(*size) / time_us / 1e3;
  if (std::fabs(bandwidth - expected) > 0.01 * expected + 0.005) {
    set_aside.emplace_back(number, "the bandwidth is not size over time: the row is mixed with another");
    return true;
  }
  TimedLine row;
  row.line = number;
  row.timing.size = *size;
  row.timing.time_us = time_us;
  lines.push_back(row);
  return true;
}

}  // namespace moeplan::measurements
