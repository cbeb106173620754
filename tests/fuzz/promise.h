#pragma once
#include <cstddef>
#include <functional>

namespace moeplan::fuzz {

// Ends the program with `message` when a promise of a reader does not hold.
void require(bool holds, const char* message);

// Runs `read`. A base::Error is an answer too, as long as it says something that a terminal can show, in at most
// `most_faults` faults.
void taken_or_refused(const std::function<void()>& read, std::size_t most_faults);

}  // namespace moeplan::fuzz
