#pragma once
#include <functional>
#include <string>

#include "json_lines.h"

// What a run could not measure: told in a line of its own, and the run goes on. Plain C++17.
namespace moeplan::device {

// Says in one line what was not measured, and why.
void write_left_out(LineWriter& writer, const std::string& what, const std::string& why);

// Runs one measurement. One that fails, for want of memory or of an algorithm, is left out with the reason, and false
// is returned. `lost` then says whether the device can be used no more (empty: it can): if so, std::runtime_error ends
// the run, after the line.
bool attempt(LineWriter& writer, const std::string& what, const std::function<void()>& measurement,
             const std::function<std::string()>& lost);

}  // namespace moeplan::device
