#include <cstddef>

#include "base/error.h"
#include "base/file.h"

namespace moeplan::base {
namespace {

// Length in bytes of the well-formed sequence at `at` (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing
// above U+10FFFF), or 0.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t offset) {
    return at + offset < text.size() ? static_cast<unsigned char>(text[at + offset]) : static_cast<unsigned char>(0);
  };
  const auto follows = [&](std::size_t offset) { return byte(offset) >= 0x80 && byte(offset) <= 0xBF; };
  const unsigned char lead = byte(0);
  const unsigned char second = byte(1);
  if (lead <= 0x7F) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

void require_utf8(std::string_view text, const std::string& name) {
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text, at);
    if (length == 0 || text[at] == '\0') {
      // Columns count bytes, as those of the YAML reader do.
      throw Error(Where{name, line, static_cast<int>(at - line_start) + 1, {}},
                  length == 0 ? "not valid UTF-8 text" : "a NUL byte, which no text holds");
    }
    if (text[at] == '\n') {
      ++line;
      line_start = at + 1;
    }
    at += length;
  }
}

}  // namespace moeplan::base
