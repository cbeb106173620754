#include <nlohmann/json.hpp>

#include "base/file.h"
#include "routing/formats.h"
#include "routing/json_text.h"
#include "routing/json_trace.h"

namespace moeplan::routing {
namespace {

// The parsed document takes several times the memory of its text.
constexpr std::int64_t kLargestText = std::int64_t{512} << 20;

}  // namespace

bool is_json(const std::string& path) { return is_file_with_suffix(path, ".json"); }

Trace parse_json_trace(std::string_view text, const TracePath& path) {
  const nlohmann::json document = parse_json(text, path.file);
  if (document.is_object() && document.contains("router_data")) return gptoss_sample(document, path);
  if (document.is_object() && document.contains("models")) return olmoe_counts(document, path);
  throw base::Error({path.file, 0, 0, {}}, "not a known trace: it has neither 'router_data' nor 'models'",
                    "expected router data of gpt-oss, or expert counts of OLMoE by model and domain");
}

Trace read_json(const TracePath& path, std::int64_t) {
  return parse_json_trace(base::read_text(path.file, kLargestText), path);
}

}  // namespace moeplan::routing
