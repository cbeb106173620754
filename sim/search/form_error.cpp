#include "search/uncertainty.h"

// What training runs were off (FormError), on the half of the groups of the table behind docs/validation.md that tells
// it. `moeplan validate` works these figures out anew: its table "Intervals", 5 % and 95 %.
namespace moeplan::search {

FormError step_form() { return {0.538, 4.263}; }

FormError memory_form() { return {-0.001, 0.109}; }

}  // namespace moeplan::search
