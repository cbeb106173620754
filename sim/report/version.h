#pragma once
#include <string_view>

namespace moeplan::report {

// The version that `moeplan --version` and every result print; equal to the project's version in CMakeLists.txt (a
// test compares them).
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace moeplan::report
