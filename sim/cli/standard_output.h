#pragma once
#include <iosfwd>

namespace moeplan::cli {

// Flushes standard output and says what became of it: `status` when all was taken, or when its reader left early (as
// `| head` does); else an error on `err` and 2, so that results lost to a full disk do not pass for a success.
int finish_standard_output(std::ostream& out, std::ostream& err, int status);

}  // namespace moeplan::cli
