#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace moeplan::base {
namespace {

std::string folded(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment), three rows at a time.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, std::span<const std::string> known) {
  const std::string wanted = folded(word);
  const std::size_t limit = std::max<std::size_t>(2, wanted.size() / 3);
  std::string best;
  std::size_t best_distance = limit + 1;
  for (const std::string& name : known) {
    const std::string candidate = folded(name);
    const std::size_t longer = std::max(candidate.size(), wanted.size());
    const std::size_t shorter = std::min(candidate.size(), wanted.size());
    if (longer - shorter >= best_distance) continue;  // the distance is at least the difference of the lengths
    const std::size_t distance = edit_distance(wanted, candidate);
    if (distance < best_distance && (distance < longer || distance == 0)) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

std::string nearest_hint(std::string_view word, std::span<const std::string> known) {
  const std::string name = nearest_name(word, known);
  return name.empty() ? std::string() : "did you mean '" + name + "'?";
}

std::string join_names(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace moeplan::base
