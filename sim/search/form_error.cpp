#include "search/uncertainty.h"

// What training runs were off beside the cost models' own errors, on every second group of the table behind
// docs/validation.md (Intervals); the other groups judge the intervals. `moeplan validate` works these figures out anew
// from the table that it reads.
namespace moeplan::search {

FormError step_form() { return {0, 0, 0}; }

FormError memory_form() { return {0, 0, 0}; }

}  // namespace moeplan::search
