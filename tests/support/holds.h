#pragma once
#include <string>

namespace moeplan::test {

// Whether `part` stands in `text`.
inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace moeplan::test
