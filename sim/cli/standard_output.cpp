#include "cli/standard_output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <ostream>

namespace moeplan::cli {
namespace {

// A pipe without readers polls as an error.
bool reader_left() {
  pollfd entry{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & POLLERR) != 0;
}

}  // namespace

int finish_standard_output(std::ostream& out, std::ostream& err, int status) {
  out.flush();
  if (out.good() || reader_left()) return status;
  err << "error: standard output: cannot write all results\n" << std::flush;
  return std::max(status, 2);
}

}  // namespace moeplan::cli
