#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "routing/trace.h"
#include "scenario/resolve.h"

namespace moeplan::scenario {

class TraceCache {
 public:
  // The trace at `path`, read at the first call; errors of reading are thrown and not kept. `name` is how results call
  // it. Reading holds the lock: variants that need the same trace wait for it instead of reading it again.
  std::shared_ptr<const routing::Trace> get(const std::string& path, const std::string& name);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const routing::Trace>> traces_;
};

}  // namespace moeplan::scenario
