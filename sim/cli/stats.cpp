#include "cli/stats.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <ostream>

#include "report/format.h"

namespace moeplan::cli {

void Stats::write(std::ostream& err) const {
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const double mib = static_cast<double>(usage.ru_maxrss) / 1024.0;  // Linux counts KiB
  err << fmt::format("stats: wall {:.3f} s, {} operations, {:.2g} a second, peak memory {:.1f} MiB\n", wall,
                     report::thousands(operations_), wall > 0 ? static_cast<double>(operations_) / wall : 0.0, mib)
      << std::flush;
}

}  // namespace moeplan::cli
