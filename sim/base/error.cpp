#include "base/error.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/units.h"

namespace moeplan::base {
namespace {

// "FILE:LINE:COLUMN" with the parts that are known.
std::string place_text(const Where& where) {
  std::string text = where.file;
  if (where.line > 0) {
    text += ":" + std::to_string(where.line);
    if (where.column > 0) text += ":" + std::to_string(where.column);
  }
  return text;
}

// "FILE:LINE:COLUMN: KEY", without a separator where one side is missing.
std::string full_place(const Where& where) {
  std::string text = place_text(where);
  if (!where.key.empty()) text += (text.empty() ? "" : ": ") + where.key;
  return text;
}

auto order(const Fault& fault) { return std::tie(fault.where.file, fault.where.line, fault.where.column); }

// A message may be of several lines (the faults of a sweep's row); each line is made printable.
std::string lines_printable(const std::string& text) {
  std::string out;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    out += (start > 0 ? "\n" : "") + printable(std::string_view(text).substr(start, end - start));
    start = end + 1;
  }
  return out;
}

bool same(const Fault& a, const Fault& b) {
  return order(a) == order(b) && a.where.key == b.where.key && a.message == b.message;
}

}  // namespace

std::string format_fault(const Fault& fault) {
  std::string text = printable(full_place(fault.where));
  text += (text.empty() ? "" : ": ") + lines_printable(fault.message);
  if (!fault.hint.empty()) text += "\n  hint: " + printable(fault.hint);
  for (const Where& other : fault.also) text += "\n  see also " + printable(full_place(other));
  return text;
}

Error::Error(std::vector<Fault> faults) : faults_(std::move(faults)) {
  for (const Fault& fault : faults_) text_ += (text_.empty() ? "" : "\n") + format_fault(fault);
}

Error::Error(Where where, std::string message, std::string hint)
    : Error(std::vector<Fault>{Fault{std::move(where), std::move(message), std::move(hint), {}}}) {}

void Faults::add(Where where, std::string message, std::string hint, std::vector<Where> also) {
  faults_.push_back(Fault{std::move(where), std::move(message), std::move(hint), std::move(also)});
}

void Faults::add(const Error& error) { faults_.insert(faults_.end(), error.faults().begin(), error.faults().end()); }

void Faults::throw_if_any() const {
  if (faults_.empty()) return;
  std::vector<Fault> sorted = faults_;
  // Stable: faults of one place keep the order in which they were found.
  std::stable_sort(sorted.begin(), sorted.end(), [](const Fault& a, const Fault& b) { return order(a) < order(b); });
  // Two readers of one key find the same fault: it is told once.
  sorted.erase(std::unique(sorted.begin(), sorted.end(), same), sorted.end());
  throw Error(std::move(sorted));
}

}  // namespace moeplan::base
