#include "base/file.h"
#include "routing/array_trace.h"
#include "routing/formats.h"

namespace moeplan::routing {
namespace {

[[noreturn]] void rethrow_with_hint(const base::Error& error, const std::string& hint) {
  std::vector<base::Fault> faults = error.faults();
  if (!faults.empty() && faults.front().hint.empty()) faults.front().hint = hint;
  throw base::Error(std::move(faults));
}

}  // namespace

bool is_npy(const std::string& path) { return is_file_with_suffix(path, ".npy"); }

Trace parse_npy_trace(std::string_view bytes, const TracePath& path) {
  if (!path.part.empty() && path.part != kChoices && path.part != kCounts) {
    throw base::Error({path.file, 0, 0, {}}, "expected #" + std::string(kChoices) + " or #" + std::string(kCounts) +
                                                 ", got '#" + path.part + "'");
  }
  const bool stated = !path.part.empty();
  NpyArray array = parse_npy(bytes, path.file, stated ? path.part : "array");
  const bool choices = stated ? path.part == kChoices : array.shape.size() == 3 && array.kind != 'f';
  array.name = choices ? kChoices : kCounts;
  if (!choices) return trace_of_counts(array, {}, path.text());
  try {
    return trace_of_choices(array, {}, path.text());
  } catch (const base::Error& error) {
    if (stated) throw;
    rethrow_with_hint(error,
                      "three dimensions are read as choices [tokens, layers, k]; counts [steps, layers, experts] "
                      "are read with '#counts' after the path");
  }
}

Trace read_npy(const TracePath& path, std::int64_t) { return parse_npy_trace(base::read_file(path.file), path); }

}  // namespace moeplan::routing
