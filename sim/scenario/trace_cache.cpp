#include "scenario/trace_cache.h"

#include <utility>
#include <variant>

namespace moeplan::scenario {

std::shared_ptr<const routing::Trace> TraceCache::get(const std::string& path, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const routing::Trace>& entry = traces_[{path, name}];
  if (!entry) {
    // The number of experts a token is inferred, so that a trace of another model is seen as such.
    routing::Trace trace = routing::read_trace(path);
    std::visit([&](auto& kind) { kind.name = name; }, trace);
    entry = std::make_shared<const routing::Trace>(std::move(trace));
  }
  return entry;
}

std::shared_ptr<TraceCache> make_trace_cache() { return std::make_shared<TraceCache>(); }

}  // namespace moeplan::scenario
