#include "search/uncertainty.h"

// What training runs were off (FormError), on the half of the groups that tells it, of the whole table of 298 public
// runs (docs/validation.md shows a part of it). `moeplan validate` works these figures out anew for any table:
// "Intervals", 5 % and 95 %.
namespace moeplan::search {

FormError step_form() { return {-1.392, 3.776}; }

FormError memory_form() { return {-0.019, 0.100}; }

}  // namespace moeplan::search
