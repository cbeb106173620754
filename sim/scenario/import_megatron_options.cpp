#include "scenario/import_megatron_options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "scenario/import_megatron_table.h"

namespace moeplan::scenario {

const MegatronOption* MegatronOptions::find(const std::string& name) const {
  const auto at = std::find_if(input_.options.begin(), input_.options.end(),
                               [&](const MegatronOption& option) { return option.name == name; });
  return at == input_.options.end() ? nullptr : &*at;
}

const MegatronOption* MegatronOptions::take(const std::string& name) {
  read_.insert(name);
  return find(name);
}

base::Where MegatronOptions::where(const std::string& name) const {
  const MegatronOption* option = find(name);
  return {input_.file, option == nullptr ? 0 : option->line, 0, option == nullptr ? "" : one_line(option->written)};
}

void MegatronOptions::fault(const std::string& name, const std::string& message, const std::string& hint) {
  faults_.add(where(name), message, hint);
}

// The one value of an option; further ones are named.
const std::string* MegatronOptions::value(const std::string& name) {
  const bool first_time = !read_.contains(name);
  const MegatronOption* option = take(name);
  if (option == nullptr) return nullptr;
  if (option->values.empty()) {
    if (first_time) fault(name, "expected a value");
    return nullptr;
  }
  if (first_time) {
    for (std::size_t i = 1; i < option->values.size(); ++i) {
      extra_.push_back({where(name),
                        "'" + one_line(option->values[i]) + "' was not understood: the option takes one value",
                        {},
                        {}});
    }
  }
  const std::string& text = option->values.front();
  if (text.find('$') == std::string::npos) return &text;
  if (first_time) fault(name, "the value '" + one_line(text) + "' is not set in this file");
  return nullptr;
}

bool MegatronOptions::flag(const std::string& name) {
  const bool first_time = !read_.contains(name);
  const MegatronOption* option = take(name);
  if (option == nullptr) return false;
  if (!input_.dump) {
    for (const std::string& text : option->values) {
      if (first_time)
        extra_.push_back(
            {where(name), "'" + one_line(text) + "' was not understood: the option takes no value", {}, {}});
    }
    return true;
  }
  const std::string& text = option->values.front();
  if (text != "True" && text != "False") fault(name, "expected True or False, got '" + one_line(text) + "'");
  return text == "True";
}

std::optional<std::int64_t> MegatronOptions::integer(const std::string& name) {
  const std::string* text = value(name);
  if (text == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = whole_number(*text);
  if (!number) fault(name, "expected an integer, got '" + one_line(*text) + "'");
  return number;
}

std::int64_t MegatronOptions::required(const std::string& name) {
  if (!given(name)) {
    std::string option = "--" + name;
    std::replace(option.begin(), option.end(), '_', '-');
    faults_.add({input_.file, 0, 0, {}}, "missing option " + option);
  }
  return size_or(name, 0);
}

std::int64_t MegatronOptions::size_or(const std::string& name, std::int64_t fallback) {
  const std::optional<std::int64_t> number = integer(name);
  if (number && *number < 1) fault(name, "expected an integer >= 1, got '0'");
  return number.value_or(fallback);
}

std::optional<double> MegatronOptions::real(const std::string& name) {
  const std::string* text = value(name);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text->c_str(), &end);
  const bool plain = text->find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (plain && end != text->c_str() && *end == '\0' && std::isfinite(number)) return number;
  fault(name, "expected a number, got '" + one_line(*text) + "'");
  return std::nullopt;
}

std::optional<std::string> MegatronOptions::text(const std::string& name) {
  const std::string* text = value(name);
  return text == nullptr ? std::nullopt : std::optional<std::string>(*text);
}

std::vector<std::string> MegatronOptions::list(const std::string& name) {
  const MegatronOption* option = take(name);
  if (option == nullptr) return {};
  if (option->values.empty()) fault(name, "expected a value");
  if (option->values.size() != 1 || !option->values[0].starts_with("[")) return option->values;
  std::vector<std::string> parts;
  std::string part;
  for (const char c : option->values[0].substr(1)) {
    if (c != ',' && c != ']') {
      part += c;
    } else {
      if (!part.empty()) parts.push_back(part);
      part.clear();
    }
  }
  return parts;
}

void MegatronOptions::unsupported(const std::string& name, const std::string& instead) {
  const MegatronOption* option = take(name);
  unsupported_.push_back({{input_.file, option == nullptr ? 0 : option->line, 0, {}},
                          (option == nullptr ? name : "'" + option->text() + "'") +
                              ": not supported in this version, simulated " + instead,
                          {},
                          {}});
}

void MegatronOptions::unsupported_at(const std::string& place, const std::string& message) {
  base::Where at = where(place);
  at.key.clear();
  unsupported_.push_back({at, message, {}, {}});
}

void MegatronOptions::no_part(std::initializer_list<const char*> names) {
  for (const char* name : names) no_part_.insert(name);
}

MegatronOptions::Sorted MegatronOptions::sort_out() const {
  Sorted sorted{input_.not_understood, unsupported_, {}, assumptions_};
  sorted.not_understood.insert(sorted.not_understood.end(), extra_.begin(), extra_.end());
  for (const MegatronOption& option : input_.options) {
    if (read_.contains(option.name)) continue;
    const MegatronMeaning meaning =
        no_part_.contains(option.name) ? MegatronMeaning::ignored : megatron_meaning(option.name, option.values);
    const base::Where where{input_.file, option.line, 0, {}};
    if (meaning == MegatronMeaning::ignored) {
      sorted.ignored.push_back(one_line(option.written));
    } else if (meaning == MegatronMeaning::unsupported) {
      sorted.unsupported.push_back(
          {where, "'" + option.text() + "': not supported in this version, simulated without", {}, {}});
    } else {
      sorted.not_understood.push_back({where, "'" + option.text() + "' was not understood", {}, {}});
    }
  }
  const auto by_line = [](const base::Fault& a, const base::Fault& b) { return a.where.line < b.where.line; };
  std::stable_sort(sorted.not_understood.begin(), sorted.not_understood.end(), by_line);
  std::stable_sort(sorted.unsupported.begin(), sorted.unsupported.end(), by_line);
  return sorted;
}

}  // namespace moeplan::scenario
