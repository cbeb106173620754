#pragma once
#include "routing/trace.h"

namespace moeplan::fuzz {

// What every trace that a reader returns must keep: whole rows, ids below the experts, distinct in a token, finite
// weights, counts >= 0 that sum to something; and loads made of it add up. Ends the program otherwise.
void check_trace(const routing::Trace& trace);

}  // namespace moeplan::fuzz
