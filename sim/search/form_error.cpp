#include "search/uncertainty.h"

// What training runs were off (FormError), on the half of the groups that tells it, of the whole table of 298 public
// runs (docs/validation.md shows a part of it). `moeplan validate` works these figures out anew for any table:
// "Intervals", 5 % and 95 %, by framework.
namespace moeplan::search {

FormError step_form(scenario::Framework framework) {
  return framework == scenario::Framework::torchtitan ? FormError{-0.030, 7.191} : FormError{-2.042, 5.057};
}

FormError memory_form() { return {-0.021, 0.107}; }

}  // namespace moeplan::search
