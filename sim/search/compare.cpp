#include "search/compare.h"

namespace moeplan::search {

std::vector<PolicyResult> compare_policies(const scenario::Scenario& scenario, const std::vector<std::string>& names,
                                           const base::Where& where, int threads) {
  base::Faults faults;
  std::vector<std::shared_ptr<const scenario::Scenario>> variants;
  for (const std::string& name : names) {
    try {
      variants.push_back(std::make_shared<const scenario::Scenario>(scenario::with_policies(scenario, name, where)));
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  faults.throw_if_any();
  std::vector<PolicyResult> results;
  for (std::size_t i = 0; i < names.size(); ++i) results.push_back({names[i], evaluate(variants[i], threads)});
  return results;
}

}  // namespace moeplan::search
