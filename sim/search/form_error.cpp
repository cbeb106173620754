#include "search/uncertainty.h"

// What training runs were off (FormError), on the half of the groups that tells it, of the whole table of 298 public runs
// (docs/validation.md shows a part of it; 49 groups tell the step time, 25 the memory). `moeplan validate` works these
// figures out anew for any table: "Intervals", 5 % and 95 %.
namespace moeplan::search {

FormError step_form() { return {-2.056, 5.769}; }

FormError memory_form() { return {-0.001, 0.109}; }

}  // namespace moeplan::search
