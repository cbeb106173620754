#pragma once
#include "plan/plan.h"

namespace moeplan::plan {

// Fills plan.decisions and plan.decision_of on `threads` threads; the result does not depend on their number.
void decide_all(Plan& plan, int threads);

}  // namespace moeplan::plan
