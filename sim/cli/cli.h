#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace moeplan::cli {

// The whole program: arguments without the program's name. Writes results to `out`, errors and progress to `err`. Exit
// status: 0 done (and it fits); 1 the answer is no; 2 bad input; 3 a fault of ours.
int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace moeplan::cli
