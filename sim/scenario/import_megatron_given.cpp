#include "scenario/import_megatron_given.h"

#include <algorithm>
#include <cctype>

namespace moeplan::scenario {

std::string one_line(const std::string& text, std::size_t most) {
  std::string line;
  for (const char c : text) {
    if (line.size() >= most && (static_cast<unsigned char>(c) & 0xC0U) != 0x80U) return line + " ...";  // whole letters
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  return line;
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  if (text.empty() || text.size() > 16) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value <= (std::int64_t{1} << 53) ? std::optional<std::int64_t>(value) : std::nullopt;
}

std::string MegatronOption::text() const {
  std::string all = written;
  for (const std::string& value : values) all += " " + value;
  return one_line(all);
}

void add_option(MegatronInput& input, MegatronOption option) {
  const auto same = std::find_if(input.options.begin(), input.options.end(),
                                 [&](const MegatronOption& o) { return o.name == option.name; });
  if (same != input.options.end()) {
    if (same->values != option.values) {
      input.not_understood.push_back(
          {{input.file, same->line, 0, {}},
           "'" + same->text() + "' is given again and not used: line " + std::to_string(option.line) + " counts",
           {},
           {}});
    }
    input.options.erase(same);
  }
  input.options.push_back(std::move(option));
}

MegatronInput read_megatron(const std::string& text, const std::string& file) {
  MegatronInput input = holds_megatron_dump(text) ? read_megatron_dump(text, file) : read_megatron_launch(text, file);
  if (input.options.empty()) {
    throw base::Error({file, 0, 0, {}}, "no options of Megatron found",
                      "expected a launch script, a list of arguments, or the dump of arguments that a run prints");
  }
  return input;
}

}  // namespace moeplan::scenario
