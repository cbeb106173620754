#include "search/oom_line.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace moeplan::search {
namespace {

constexpr std::size_t npos = std::string_view::npos;
constexpr double kMostBytes = 1125899906842624.0;  // 1 PiB: no device holds a tenth of a percent of it

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

struct Unit {
  std::string_view name;  // lower case
  double bytes;
};
// PyTorch writes KiB, MiB, GiB and bytes; people retype them as KB, MB, GB and mean the same.
constexpr std::array<Unit, 11> kUnits = {{{"bytes", 1.0},
                                          {"byte", 1.0},
                                          {"kib", 1024.0},
                                          {"mib", 1048576.0},
                                          {"gib", 1073741824.0},
                                          {"tib", 1099511627776.0},
                                          {"kb", 1024.0},
                                          {"mb", 1048576.0},
                                          {"gb", 1073741824.0},
                                          {"tb", 1099511627776.0},
                                          {"b", 1.0}}};

// A number with a unit in the text, [begin, end).
struct Quantity {
  std::size_t begin = 0, end = 0;
  PrintedBytes size;
};

// "53.20 GiB" at `begin`, where a digit stands; nothing when no unit follows the number.
std::optional<Quantity> quantity_at(const std::string& text, std::size_t begin) {
  std::size_t at = begin, point = npos;
  while (at < text.size() && (is_digit(text[at]) || (text[at] == '.' && point == npos))) {
    if (text[at] == '.') point = at;
    ++at;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + at, value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const auto digits = point == npos ? 0 : static_cast<int>(at - point - 1);
  while (at < text.size() && text[at] == ' ') ++at;
  for (const Unit& unit : kUnits) {
    if (text.compare(at, unit.name.size(), unit.name) != 0) continue;
    const std::size_t end = at + unit.name.size();
    if (end < text.size() && is_word(text[end])) continue;
    const double half = unit.bytes == 1.0 ? 0.0 : 0.5 * std::pow(10.0, -digits) * unit.bytes;
    return Quantity{begin, end, {value * unit.bytes, half}};
  }
  return std::nullopt;
}

std::vector<Quantity> quantities(const std::string& text, std::size_t from) {
  std::vector<Quantity> found;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (!is_digit(text[i]) || (i > 0 && (is_word(text[i - 1]) || text[i - 1] == '.'))) continue;
    const auto quantity = quantity_at(text, i);
    if (!quantity) continue;
    found.push_back(*quantity);
    i = quantity->end - 1;
  }
  return found;
}

// The whole number behind the first `word` that has one: "gpu 3", "[rank3]:".
std::optional<std::int64_t> number_behind(const std::string& text, std::string_view word) {
  for (std::size_t at = text.find(word); at != npos; at = text.find(word, at + 1)) {
    std::size_t first = at + word.size();
    if (at > 0 && is_word(text[at - 1])) continue;
    while (first < text.size() && (text[first] == ' ' || text[first] == ':' || text[first] == '=')) ++first;
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data() + first, text.data() + text.size(), value);
    if (error == std::errc() && value >= 0) return value;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& message) {
  throw base::Error(
      base::Where{"--oom-line", 0, 0, {}}, message,
      "known are, for CUDA, HIP, XPU and NPU alike: 'CUDA out of memory. Tried to allocate 26.44 GiB (GPU 0; 79.33 GiB "
      "total capacity; 52.88 GiB already allocated; 1.25 GiB free; 53.20 GiB reserved in total by PyTorch)' and 'CUDA "
      "out of memory. Tried to allocate 3.56 GiB. GPU 5 has a total capacity of 79.10 GiB of which 2.73 GiB is free. "
      "Including non-PyTorch memory, this process has 76.36 GiB memory in use. Of the allocated memory 70.21 GiB is "
      "allocated by PyTorch, and 4.12 GiB is reserved by PyTorch but unallocated.'; no more than 'Tried to allocate "
      "26.44 GiB' is needed");
}

// "CUDA" of "cuda out of memory", before the size; "" when the text starts with "Tried to allocate".
std::string device_before(std::string_view text, std::size_t tried) {
  const std::string all = lowered(text.substr(0, tried));
  const std::size_t at = all.rfind("out of memory");
  if (at == npos) return "";
  std::size_t end = at;
  while (end > 0 && all[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && is_word(all[begin - 1])) --begin;
  if (all.substr(begin, end - begin) == "backend") {  // "MPS backend out of memory"
    end = begin;
    while (end > 0 && all[end - 1] == ' ') --end;
    begin = end;
    while (begin > 0 && is_word(all[begin - 1])) --begin;
  }
  std::string name(text.substr(begin, end - begin));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  return name;
}

void add(std::optional<PrintedBytes>& sum, const PrintedBytes& size) {
  if (!sum) sum.emplace();
  sum->bytes += size.bytes;
  sum->half_unit += size.half_unit;
}

// Puts a size where the words around it say it belongs. `before` and `after` reach to the neighbouring sizes.
void sort_in(OomLine& line, const PrintedBytes& size, const std::string& before, const std::string& after) {
  const auto ahead = [&](std::string_view words) { return after.starts_with(words); };
  const auto behind = [&](std::string_view words) { return before.find(words) != npos; };
  const auto take = [&](std::optional<PrintedBytes>& field) {
    if (!field) field = size;
  };
  // Versions up to 2.1 write "total capacty".
  if (ahead("total capa") || behind("total capacity of") || behind("total capacty of")) return take(line.capacity);
  if (ahead("already allocated") || ahead("is allocated by pytorch")) return take(line.allocated);
  if (ahead("allocated in private pools")) return take(line.private_pools);
  if (ahead("is reserved by pytorch but unallocated") || ahead("cached")) return take(line.unallocated);
  if (ahead("reserved in total")) return take(line.reserved);
  if (ahead("free") || ahead("is free")) return take(line.free);
  if (ahead("allowed")) return take(line.allowed);
  if (!ahead("memory in use")) return;
  if (behind("this process has")) return take(line.in_use);
  if (behind("process ")) add(line.other_processes, size);
}

}  // namespace

std::optional<double> OomLine::reserved_bytes() const {
  if (reserved) return reserved->bytes;
  if (allocated && unallocated) return allocated->bytes + unallocated->bytes;
  return std::nullopt;
}

std::optional<double> OomLine::outside_bytes() const {
  const auto held = reserved_bytes();
  if (!in_use || !held) return std::nullopt;
  return std::max(0.0, in_use->bytes - *held);
}

OomLine parse_oom_line(std::string_view text) {
  // Line breaks and runs of blanks as one blank: texts are pasted from terminals.
  std::string flat;
  for (const char c : text) {
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!blank)
      flat += c;
    else if (!flat.empty() && flat.back() != ' ')
      flat += ' ';
  }
  const std::string all = lowered(flat);
  if (all.empty()) refuse("expected PyTorch's out-of-memory text, got nothing");
  constexpr std::string_view kTried = "tried to allocate ";
  const std::size_t tried = all.find(kTried);
  if (tried == npos) {
    const bool driver = all.find("out of memory") != npos;
    refuse(driver ? "this out-of-memory text does not state the size that was asked for (no 'Tried to allocate ...')"
                  : "not an out-of-memory text of PyTorch: '" + base::printable(flat.substr(0, 60)) + "'");
  }
  const std::size_t first = tried + kTried.size();
  const std::vector<Quantity> found = quantities(all, first);
  if (found.empty() || found.front().begin != first || !(found.front().size.bytes > 0))
    refuse("expected a size behind 'Tried to allocate', got '" + base::printable(flat.substr(first, 24)) + "'");

  OomLine line;
  line.device = device_before(flat, tried);
  line.tried = found.front().size;
  if (line.tried.bytes > kMostBytes)
    refuse("expected a size of one tensor behind 'Tried to allocate', got '" + base::printable(flat.substr(first, 24)) +
           "', more than 1 PiB");
  for (std::size_t i = 1; i < found.size(); ++i) {
    const std::size_t left = found[i - 1].end;
    const std::size_t right = i + 1 < found.size() ? found[i + 1].begin : all.size();
    std::size_t after = found[i].end;
    while (after < right && all[after] == ' ') ++after;
    sort_in(line, found[i].size, all.substr(left, found[i].begin - left), all.substr(after, right - after));
  }
  line.rank = number_behind(all.substr(0, tried), "rank");
  const std::string behind = all.substr(first);
  for (const char* word : {"gpu", "npu", "device"})
    if (!line.gpu) line.gpu = number_behind(behind, word);
  return line;
}

std::int64_t device_request_bytes(std::int64_t tensor_bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  if (tensor_bytes <= kMiB) return 2 * kMiB;
  if (tensor_bytes < 10 * kMiB) return 20 * kMiB;
  return (tensor_bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
}

}  // namespace moeplan::search
