#include <cctype>
#include <string_view>

#include "scenario/import_megatron_given.h"
#include "scenario/import_megatron_shell.h"

// The dump of arguments that a run prints: "  num_layers ........ 4" between two lines of dashes.
namespace moeplan::scenario {
namespace {

constexpr std::string_view kHeader = "--- arguments ---";
constexpr std::string_view kEnd = "--- end of arguments ---";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

// "[default0]:  num_layers ...... 4" -> name and value; an empty name where the line has not that form. A name of 48
// letters and more has no dots behind it, but two blanks.
std::pair<std::string, std::string> split_line(std::string_view line) {
  std::size_t gap = line.find(" ..");
  if (gap == std::string_view::npos) {
    const std::size_t last = line.find_last_not_of(" \r");
    gap = last == std::string_view::npos ? last : line.rfind("  ", last);
    while (gap != std::string_view::npos && gap > 0 && line[gap - 1] == ' ') --gap;
  }
  if (gap == std::string_view::npos || gap == 0) return {};
  std::size_t first = gap;
  while (first > 0 && is_name(line[first - 1])) --first;
  std::string_view rest = line.substr(gap);
  while (!rest.empty() && (rest.front() == ' ')) rest.remove_prefix(1);
  while (!rest.empty() && (rest.front() == '.')) rest.remove_prefix(1);
  return {std::string(line.substr(first, gap - first)), std::string(trimmed(rest))};
}

// "[0, 1]" and "['mlp']" stay as one value without quotes and brackets' blanks: "[0,1]", "[mlp]".
std::string plain_value(const std::string& text) {
  if (!text.starts_with("[") || !text.ends_with("]")) return text;
  std::string value;
  for (const char c : text) {
    if (c != ' ' && c != '\'' && c != '"') value += c;
  }
  return value;
}

}  // namespace

bool holds_megatron_dump(const std::string& text) { return text.find(kHeader) != std::string::npos; }

MegatronInput read_megatron_dump(const std::string& text, const std::string& file) {
  MegatronInput input;
  input.file = file;
  input.dump = true;
  int number = 0, header = 0;
  bool ended = false;
  const auto note = [&](int line, const std::string& message) {
    input.not_understood.push_back({{file, line, 0, {}}, message, {}, {}});
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find(kEnd) != std::string_view::npos) {
      ended = ended || header > 0;
    } else if (line.find(kHeader) != std::string_view::npos) {
      if (header > 0) note(number, "a second dump of arguments: only the first is read");
      if (header > 0) break;
      header = number;
    } else if (header > 0 && !ended && !trimmed(line).empty()) {
      const auto [name, value] = split_line(line);
      if (name.empty()) {
        note(number, "'" + one_line(std::string(line)) + "' is not the line of an argument");
      } else if (value == "None" || value == "False") {
        // The one flag that is on without being given.
        if (name == "add_bias_linear") {
          add_option(input, {name, name, {value}, number});
        } else {
          input.off.push_back(name);
        }
      } else if (value.empty()) {
        throw base::Error({file, number, 0, {}}, "'" + name + "' has no value");
      } else {
        add_option(input, {name, name, {plain_value(value)}, number});
      }
    }
  }
  if (!ended) throw base::Error({file, header, 0, {}}, "the dump of arguments has no line 'end of arguments'");
  for (const MegatronOption& option : input.options) {
    if (option.name != "world_size") continue;
    input.gpus = whole_number(option.values.front()).value_or(0);
    input.gpus_from = "world_size of the dump";
  }
  return input;
}

}  // namespace moeplan::scenario
