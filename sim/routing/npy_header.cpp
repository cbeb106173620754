#include "routing/npy_header.h"

#include <charconv>

namespace moeplan::routing {
namespace {

constexpr std::size_t kMostExtents = 8;

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const base::Where& where) : rest_(text), where_(where) {}

  NpyHeader parse() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    require('{');
    while (!take('}')) {
      const std::string key = quoted();
      require(':');
      if (key == "descr" && !descr) {
        header.descr = descr_text();
        descr = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = flag();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = extents();
        shape = true;
      } else {
        fail();
      }
      if (!take(',')) {
        require('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty() || !descr || !order || !shape) fail();
    return header;
  }

 private:
  [[noreturn]] void fail() const {
    throw base::Error(where_, "the header is not the one of an array of NumPy",
                      "expected {'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }");
  }
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void require(char c) {
    if (!take(c)) fail();
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // Printable text without escapes, which neither keys nor types have.
  std::string quoted() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"') require('"');
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos || end > 32) fail();
    const std::string text(rest_.substr(0, end));
    for (const char c : text) {
      if (c < ' ' || c > '~' || c == '\\') fail();
    }
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string descr_text() {
    skip_space();
    if (rest_.starts_with('[')) throw base::Error(where_, "an array of named fields is not read", "save one field");
    return quoted();
  }

  bool flag() {
    if (take_word("True")) return true;
    if (!take_word("False")) fail();
    return false;
  }

  std::vector<std::int64_t> extents() {
    std::vector<std::int64_t> result;
    require('(');
    while (!take(')')) {
      if (result.size() == kMostExtents) throw base::Error(where_, "the array has more than 8 dimensions");
      skip_space();
      std::int64_t extent = 0;
      const auto [end, failed] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (failed != std::errc{} || extent < 0) fail();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      result.push_back(extent);
      if (!take(',')) {
        require(')');
        break;
      }
    }
    return result;
  }

  std::string_view rest_;
  base::Where where_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const base::Where& where) {
  return HeaderParser(text, where).parse();
}

}  // namespace moeplan::routing
