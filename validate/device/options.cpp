#include "options.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace moeplan::device {
namespace {

bool parse_whole(const std::string& text, std::int64_t& value) {
  if (text.empty() || (text[0] != '-' && (text[0] < '0' || text[0] > '9'))) return false;
  char* end = nullptr;
  errno = 0;
  const long long parsed = std::strtoll(text.c_str(), &end, 10);
  value = parsed;
  return errno == 0 && *end == '\0';
}

bool parse_real(const std::string& text, double& value) {
  if (text.empty() || text[0] == ' ') return false;
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return *end == '\0' && std::isfinite(value);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t comma; (comma = text.find(',', from)) != std::string::npos; from = comma + 1)
    parts.push_back(text.substr(from, comma - from));
  parts.push_back(text.substr(from));
  return parts;
}

std::string range_fault(const std::string& text, std::int64_t least, std::int64_t most) {
  return "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", got '" + text +
         "'";
}

std::string real_fault(const std::string& text, double least, double most) {
  std::ostringstream fault;
  fault << "expected a number from " << least << " to " << most << ", got '" << text << "'";
  return fault.str();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Insertions, deletions and changes of one letter.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = word.size() / 3 + 1;
  for (const std::string& name : names) {
    const std::size_t away = distance(word, name);
    if (away >= least) continue;
    least = away;
    best = name;
  }
  return best;
}

Options& Options::add(Option option) {
  options_.push_back(std::move(option));
  return *this;
}

Options& Options::text(const std::string& name, std::string& target, const std::string& help) {
  return add({name, "TEXT", help, [&target](const std::string& value) {
                target = value;
                return value.empty() ? std::string("expected a text") : std::string();
              }});
}

Options& Options::whole(const std::string& name, std::int64_t& target, std::int64_t least, std::int64_t most,
                        const std::string& help) {
  return add({name, "N", help, [&target, least, most](const std::string& text) -> std::string {
                std::int64_t value = 0;
                if (!parse_whole(text, value) || value < least || value > most) return range_fault(text, least, most);
                target = value;
                return {};
              }});
}

Options& Options::real(const std::string& name, double& target, double least, double most, const std::string& help) {
  return add({name, "X", help, [&target, least, most](const std::string& text) -> std::string {
                double value = 0;
                if (!parse_real(text, value) || value < least || value > most) return real_fault(text, least, most);
                target = value;
                return {};
              }});
}

Options& Options::flag(const std::string& name, bool& target, const std::string& help) {
  return add({name, "", help, [&target](const std::string&) {
                target = true;
                return std::string();
              }});
}

Options& Options::choices(const std::string& name, std::vector<std::string>& target,
                          const std::vector<std::string>& known, const std::string& help) {
  return add({name, "A,B", help + " (" + joined(known) + ")", [&target, known](const std::string& text) -> std::string {
                std::vector<std::string> chosen;
                for (const std::string& word : split(text)) {
                  if (std::find(known.begin(), known.end(), word) == known.end()) {
                    const std::string near = nearest_name(word, known);
                    return "expected some of " + joined(known) + ", got '" + word + "'" +
                           (near.empty() ? "" : "; did you mean '" + near + "'?");
                  }
                  if (std::find(chosen.begin(), chosen.end(), word) != chosen.end())
                    return "'" + word + "' stands twice";
                  chosen.push_back(word);
                }
                target = chosen;
                return {};
              }});
}

Options& Options::wholes(const std::string& name, std::vector<std::int64_t>& target, std::int64_t least,
                         std::int64_t most, const std::string& help) {
  return add({name, "N,N", help, [&target, least, most](const std::string& text) -> std::string {
                std::vector<std::int64_t> values;
                for (const std::string& word : split(text)) {
                  std::int64_t value = 0;
                  if (!parse_whole(word, value) || value < least || value > most) return range_fault(word, least, most);
                  values.push_back(value);
                }
                target = values;
                return {};
              }});
}

Options& Options::reals(const std::string& name, std::vector<double>& target, double least, double most,
                        const std::string& help) {
  return add({name, "X,X", help, [&target, least, most](const std::string& text) -> std::string {
                std::vector<double> values;
                for (const std::string& word : split(text)) {
                  double value = 0;
                  if (!parse_real(word, value) || value < least || value > most) return real_fault(word, least, most);
                  values.push_back(value);
                }
                target = values;
                return {};
              }});
}

Options& Options::check(const std::vector<std::string>& names, std::function<std::vector<std::string>()> faults) {
  checks_.push_back({names, std::move(faults)});
  return *this;
}

void Options::parse(const std::vector<std::string>& words) const {
  std::vector<std::string> faults, seen, names, faulty;
  for (const Option& option : options_) names.push_back(option.name);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equal = words[i].compare(0, 2, "--") == 0 ? words[i].find('=') : std::string::npos;
    const std::string name = words[i].substr(0, equal);
    const auto option =
        std::find_if(options_.begin(), options_.end(), [&](const Option& candidate) { return candidate.name == name; });
    if (option == options_.end()) {
      const std::string near = nearest_name(name, names);
      faults.push_back("unknown option '" + name + "'" + (near.empty() ? "" : "; did you mean '" + near + "'?"));
      if (i + 1 < words.size() && equal == std::string::npos && words[i + 1].compare(0, 2, "--") != 0) ++i;
      continue;
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) faults.push_back(name + ": stands twice");
    seen.push_back(name);
    std::string value;
    if (equal != std::string::npos) {
      value = words[i].substr(equal + 1);
      if (option->kind.empty()) {
        faults.push_back(name + ": takes no value");
        faulty.push_back(name);
        continue;
      }
    } else if (!option->kind.empty()) {
      if (i + 1 == words.size() || words[i + 1].compare(0, 2, "--") == 0) {
        faults.push_back(name + ": expected a value");
        faulty.push_back(name);
        continue;
      }
      value = words[++i];
    }
    if (const std::string fault = option->set(value); !fault.empty()) {
      faults.push_back(name + ": " + fault);
      faulty.push_back(name);
    }
  }
  for (const Check& check : checks_) {
    const bool told = std::any_of(check.names.begin(), check.names.end(), [&](const std::string& name) {
      return std::find(faulty.begin(), faulty.end(), name) != faulty.end();
    });
    if (told) continue;
    for (const std::string& fault : check.faults()) faults.push_back(fault);
  }
  if (faults.empty()) return;
  std::string text;
  for (const std::string& fault : faults) text += (text.empty() ? "" : "\n") + fault;
  throw UsageError(text);
}

std::string Options::help() const {
  std::size_t width = 0;
  for (const Option& option : options_) width = std::max(width, option.name.size() + 1 + option.kind.size());
  std::string text;
  for (const Option& option : options_) {
    std::string head = option.name + (option.kind.empty() ? "" : " " + option.kind);
    head.resize(width, ' ');
    text += "  " + head + "  " + option.help + "\n";
  }
  return text;
}

}  // namespace moeplan::device
