#include "measurements/log_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace moeplan::measurements {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Both spellings of each, longest first where one holds another.
struct Spelling {
  std::string_view text, collective;
};
constexpr std::array kSpellings = {
    Spelling{"reduce_scatter", "reduce_scatter"},
    Spelling{"reducescatter", "reduce_scatter"},
    Spelling{"all_reduce", "all_reduce"},
    Spelling{"allreduce", "all_reduce"},
    Spelling{"all_gather", "all_gather"},
    Spelling{"allgather", "all_gather"},
    Spelling{"all_to_allv", "alltoallv"},
    Spelling{"alltoallv", "alltoallv"},
    Spelling{"all_to_all", "alltoall"},
    Spelling{"alltoall", "alltoall"},
    Spelling{"send_recv", "sendrecv"},
    Spelling{"sendrecv", "sendrecv"},
    Spelling{"hypercube", "hypercube"},
    Spelling{"broadcast", "broadcast"},
    Spelling{"scatter", "scatter"},
    Spelling{"gather", "gather"},
    Spelling{"reduce", "reduce"},
};

// Lower case, '-' as '_'.
std::string folded(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

Tagged split_tag(std::string_view line) {
  std::string_view text = trimmed(line);
  if (text.starts_with('[')) {
    for (const std::string_view end : {std::string_view("<stdout>:"), std::string_view("<stderr>:")}) {
      if (const std::size_t at = text.find(end); at != std::string_view::npos && at < 40)
        return {text.substr(0, at), trimmed(text.substr(at + end.size()))};
    }
    return {{}, text};
  }
  std::size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  if (digits > 0 && digits < text.size() && text[digits] == ':' &&
      (digits + 1 == text.size() || is_blank(text[digits + 1])))
    return {text.substr(0, digits), trimmed(text.substr(digits + 1))};
  return {{}, text};
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (at < text.size()) {
    while (at < text.size() && is_blank(text[at])) ++at;
    const std::size_t start = at;
    while (at < text.size() && !is_blank(text[at])) ++at;
    if (at > start) words.push_back(text.substr(start, at - start));
  }
  return words;
}

std::optional<double> number_of(std::string_view word) {
  if (word.empty() || !(is_digit(word[0]) || word[0] == '.')) return std::nullopt;  // no sign, inf or nan
  double value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> integer_of(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || status != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::string collective_of_program(std::string_view text) {
  const std::string line = folded(text);
  for (const Spelling& spelling : kSpellings) {
    for (const char* ending : {"_perf", "_test"}) {
      const std::string program = std::string(spelling.text) + ending;
      const std::size_t at = line.find(program);
      if (at == std::string::npos) continue;
      const std::size_t end = at + program.size();
      const auto inside = [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_'; };
      if (at > 0 && inside(line[at - 1])) continue;
      if (end < line.size() && inside(line[end])) continue;
      return std::string(spelling.collective);
    }
  }
  return {};
}

std::string collective_of_name(std::string_view text) {
  const std::string name = folded(text);
  for (const Spelling& spelling : kSpellings) {
    if (name.find(spelling.text) != std::string::npos) return std::string(spelling.collective);
  }
  return {};
}

std::int64_t flag_value(std::string_view line, std::string_view flag) {
  const std::vector<std::string_view> words = words_of(line);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == flag) return std::max<std::int64_t>(0, integer_of(words[i + 1]).value_or(0));
  }
  return 0;
}

std::optional<RankLine> parse_rank_line(std::string_view text) {
  if (!text.starts_with('#')) return std::nullopt;
  const std::vector<std::string_view> words = words_of(text.substr(1));
  if (words.size() < 2 || words[0] != "Rank") return std::nullopt;
  const std::optional<std::int64_t> rank = integer_of(words[1]);
  if (!rank || *rank < 0 || *rank >= 1'000'000) return std::nullopt;
  RankLine line;
  line.rank = *rank;
  for (std::size_t i = 2; i + 1 < words.size(); ++i) {
    if (words[i] == "on") line.host = words[i + 1];
  }
  // The device's name follows its PCI address in brackets.
  if (const std::size_t bracket = text.find(']'); bracket != std::string_view::npos)
    line.gpu = trimmed(text.substr(bracket + 1));
  return line;
}

std::vector<std::string> parse_columns(std::string_view text) {
  if (!text.starts_with('#')) return {};
  std::vector<std::string> columns;
  bool time = false;
  for (const std::string_view word : words_of(text.substr(1))) {
    std::string name(word);
    if (name == "bytes") name = "size";
    if (name == "N") name = "count";
    if (name == "op") name = "redop";
    time = time || name == "time";
    columns.push_back(std::move(name));
  }
  if (columns.size() < 4 || columns[0] != "size" || !time) return {};
  return columns;
}

namespace {

// Time and bandwidths of one group of columns; false when the group was not measured (N/A).
struct Group {
  std::optional<double> time, algbw, busbw;
  std::string_view time_text, algbw_text, wrong;
};

// Whether a printed algorithm bandwidth is size over time, up to the rounding of both.
bool agrees(double size, const Group& group) {
  if (!group.time || !group.algbw || *group.time <= 0) return false;
  const double expected = size / *group.time / 1e3;
  const double rounding = half_digit_of(group.time_text) / *group.time * expected + half_digit_of(group.algbw_text);
  return std::fabs(*group.algbw - expected) <= 1.1 * rounding + 0.001 * expected;
}

Group group_at(const std::vector<std::string_view>& words, std::size_t at) {
  Group group;
  const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string_view(); };
  group.time_text = word(at);
  group.time = number_of(group.time_text);
  group.algbw_text = word(at + 1);
  group.algbw = number_of(group.algbw_text);
  group.busbw = number_of(word(at + 2));
  group.wrong = word(at + 3);
  return group;
}

bool is_count_of_wrong(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), is_digit);
}

// Where the first and second group start: from the header where the row has its columns, blank cells of redop and root
// aside; else by trying whether an algorithm bandwidth stands where one must.
std::vector<std::size_t> group_places(const std::vector<std::string_view>& words, std::vector<std::string> columns,
                                      double size) {
  for (const char* blank : {"root", "redop"}) {
    if (words.size() >= columns.size()) break;
    std::erase(columns, blank);
  }
  std::vector<std::size_t> places;
  if (!columns.empty() && words.size() == columns.size()) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i] == "time") places.push_back(i);
    return places;
  }
  for (std::size_t i = 3; i <= 5 && i + 3 < words.size(); ++i) {
    if (!agrees(size, group_at(words, i))) continue;
    places.push_back(i);
    if (i + 7 < words.size()) places.push_back(i + 4);
    return places;
  }
  return places;
}

}  // namespace

RowKind parse_row(std::string_view text, const std::vector<std::string>& columns, Timing& timing) {
  if (text.empty() || !is_digit(text[0])) return RowKind::none;
  const std::vector<std::string_view> words = words_of(text);
  const std::optional<std::int64_t> size = integer_of(words[0]);
  if (!size || words.size() < 2 || !integer_of(words[1])) return RowKind::none;
  constexpr std::array<std::string_view, 19> kTypes = {
      "int8",    "uint8",   "int32",   "uint32", "int64", "uint64", "half",   "float",  "double", "bfloat16",
      "float16", "float32", "float64", "bf16",   "fp16",  "fp32",   "f8e4m3", "f8e5m2", "char"};
  if (words.size() >= 3 && std::find(kTypes.begin(), kTypes.end(), words[2]) == kTypes.end() &&
      !words[2].starts_with("fp8") && !words[2].starts_with("float8"))
    return RowKind::none;
  timing.size = *size;
  if (*size == 0) return RowKind::nothing_measured;  // all-to-all of less than one element a rank
  const std::vector<std::size_t> places = group_places(words, columns, static_cast<double>(*size));
  if (places.empty()) return RowKind::cut;
  // Out of place stands first. The time in place is another measurement: it stands in where the test printed none
  // ("N/A"), never for a damaged one.
  const bool none = words[places.front()] == "N/A" && places.size() > 1;
  const Group group = group_at(words, places[none ? 1 : 0]);
  if (!group.time || *group.time <= 0 || !group.algbw || !group.busbw) return RowKind::cut;
  timing.time_us = *group.time;
  timing.algbw = *group.algbw;
  timing.busbw = *group.busbw;
  timing.half_digit = half_digit_of(group.algbw_text);
  timing.bandwidths = true;
  timing.wrong = is_count_of_wrong(group.wrong) ? integer_of(group.wrong).value_or(0) : 0;
  return agrees(static_cast<double>(*size), group) ? RowKind::row : RowKind::cut;
}

double half_digit_of(std::string_view text) {
  std::size_t digits = 0;
  bool point = false;
  for (const char c : text) {
    if (c == '.') {
      point = true;
    } else if (c >= '0' && c <= '9') {
      digits += point ? 1 : 0;
    } else {
      break;
    }
  }
  return 0.5 * std::pow(10.0, -static_cast<double>(digits));
}

}  // namespace moeplan::measurements
