#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "routing/formats.h"

// The scanner of one ESFT file. Traces are many megabytes of short numbers, so it walks the bytes once and builds no
// strings unless something is wrong. Every loop stops at a line end, and the text is known to end with one.
namespace moeplan::routing {
namespace {

constexpr std::uint32_t kLargestId = 65'534;  // ids and their count fit 16 bits
constexpr std::array<double, 19> kPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                            1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
constexpr std::size_t kMostShown = 24;

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }
bool ends_number(char c) { return c == '\t' || c == '\n' || c == '\r'; }

class LineScanner {
 public:
  LineScanner(const char* line, EsftLayer& layer) : line_(line), at_(line), layer_(layer) {}

  // Appends the ids and weights of the line. On a fault it takes back what it appended and records the fault.
  // Returns the start of the next line.
  const char* scan() {
    const std::size_t ids_before = layer_.ids.size(), weights_before = layer_.weights.size();
    const bool good = ids() && weights() && lengths_agree(ids_before, weights_before);
    if (good) {
      layer_.line_ids.push_back(static_cast<std::int64_t>(layer_.ids.size() - ids_before));
    } else {
      layer_.line_ids.push_back(-1);
      layer_.ids.resize(ids_before);
      layer_.weights.resize(weights_before);
    }
    while (*at_ != '\n') ++at_;
    return at_ + 1;
  }

 private:
  // id TAB id ... TAB TAB; leaves at_ on the first weight.
  bool ids() {
    while (true) {
      if (!is_digit(*at_)) return bad_id();
      const char* start = at_;
      std::uint32_t value = 0;
      do {
        value = value * 10 + static_cast<std::uint32_t>(*at_ - '0');
        ++at_;
      } while (is_digit(*at_) && value <= kLargestId);
      if (value > kLargestId || !ends_number(*at_)) {
        at_ = start;
        return bad_id();
      }
      layer_.ids.push_back(static_cast<std::uint16_t>(value));
      if (*at_ != '\t') return fault("the line ends after the ids: expected two tabs and the weights");
      if (*++at_ == '\t') {
        ++at_;
        return true;
      }
    }
  }

  // w TAB w ... to the line end.
  bool weights() {
    while (true) {
      float value = 0;
      if (!plain_weight(value) && !general_weight(value)) return false;
      layer_.weights.push_back(value);
      if (*at_ != '\t') return *at_ == '\n' || at_[1] == '\n' || fault("a carriage return inside the line");
      ++at_;
    }
  }

  // Digits with at most one point and at most 15 digits: the quotient of two exact numbers, rounded once to double.
  bool plain_weight(float& value) {
    const char* p = at_;
    std::uint64_t digits = 0;
    while (is_digit(*p)) digits = digits * 10 + static_cast<std::uint64_t>(*p++ - '0');
    std::ptrdiff_t count = p - at_, fraction = 0;
    if (*p == '.') {
      const char* point = p++;
      while (is_digit(*p)) digits = digits * 10 + static_cast<std::uint64_t>(*p++ - '0');
      fraction = p - point - 1;
      count += fraction;
    }
    if (count < 1 || count > 15 || !ends_number(*p)) return false;
    value = static_cast<float>(static_cast<double>(digits) / kPowers[static_cast<std::size_t>(fraction)]);
    at_ = p;
    return true;
  }

  // Any other spelling of a number (exponents, many digits), and the faults.
  bool general_weight(float& value) {
    const char* end = at_;
    while (!ends_number(*end)) ++end;
    double number = 0;
    const auto [stop, failed] = std::from_chars(at_, end, number);
    if (end == at_) return fault("an empty weight: expected a number >= 0");
    if (failed != std::errc{} || stop != end) return bad_weight(end, "expected a weight (a finite number >= 0)");
    if (!std::isfinite(number) || number > static_cast<double>(std::numeric_limits<float>::max())) {
      return bad_weight(end, "expected a finite weight");
    }
    if (number < 0.0) return bad_weight(end, "expected a weight >= 0");
    value = static_cast<float>(std::fabs(number));  // -0 is 0
    at_ = end;
    return true;
  }

  bool lengths_agree(std::size_t ids_before, std::size_t weights_before) {
    const std::size_t ids = layer_.ids.size() - ids_before, weights = layer_.weights.size() - weights_before;
    if (ids == weights) return true;
    at_ = line_;
    return fault(fmt::format("{} ids, but {} weights", ids, weights), false);
  }

  bool bad_id() {
    if (at_ == line_ && (*at_ == '\n' || *at_ == '\r')) return fault("an empty line");
    const char* end = at_;
    while (!ends_number(*end)) ++end;
    return fault(fmt::format("expected an expert id (a whole number from 0 to {}), got '{}'", kLargestId, shown(end)));
  }
  bool bad_weight(const char* end, const char* expected) {
    return fault(fmt::format("{}, got '{}'", expected, shown(end)));
  }
  std::string shown(const char* end) const {
    const auto size = static_cast<std::size_t>(end - at_);
    if (size <= kMostShown) return {at_, size};
    std::size_t cut = kMostShown;
    while (cut > 0 && (static_cast<unsigned char>(at_[cut]) & 0xC0u) == 0x80u) --cut;  // not inside a character
    return std::string(at_, cut) + "...";
  }

  bool fault(std::string message, bool with_column = true) {
    const int number = static_cast<int>(layer_.line_ids.size()) + 1;
    const int column = with_column ? static_cast<int>(at_ - line_) + 1 : 0;
    layer_.faults.push_back({{layer_.file, number, column, {}}, std::move(message), {}, {}});
    return false;
  }

  const char* line_;
  const char* at_;
  EsftLayer& layer_;
};

}  // namespace

EsftLayer parse_esft_layer(std::string_view text, const std::string& file, int layer) {
  EsftLayer result;
  result.layer = layer;
  result.file = file;
  if (text.empty()) {
    result.faults.push_back({{file, 0, 0, {}}, "the file is empty", {}, {}});
    return result;
  }
  const std::size_t complete = text.rfind('\n') + 1;  // npos + 1 is 0: no complete line
  const auto numbers = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\t'));
  result.ids.reserve(numbers / 2 + 1);
  result.weights.reserve(numbers / 2 + 1);
  const char* end = text.data() + complete;
  for (const char* at = text.data(); at != end && result.faults.size() < kMostFaults;) {
    at = LineScanner(at, result).scan();
  }
  if (complete != text.size() && result.faults.size() < kMostFaults) {
    const auto last = static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1;
    result.faults.push_back({{file, last, 0, {}}, "the last line has no line end: the file was cut", {}, {}});
  }
  return result;
}

}  // namespace moeplan::routing
