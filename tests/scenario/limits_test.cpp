#include "scenario/limits.h"

#include <doctest/doctest.h>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

TEST_CASE("the operations of a run are counted from its loops") {
  // Balanced: one expert group of 4 stands for both. 4 ranks x 4 layers x 2 microbatches x (60 + 24 x 4 chunks)
  CHECK(estimated_operations(resolve()) == 32.0 * 156.0);
  Options options = options_with();
  options.iterations = 3;
  CHECK(estimated_operations(resolve_with(kSmall, options)) == 3.0 * 32.0 * 156.0);
  // Without policies 32 x 84; the adaptive rule counts its largest bin; under LRMoE every rank of 8 has draws of its
  // own, and half of 16 x 128 x 2 x 3 copies is added.
  CHECK(estimated_operations(resolve(kSmall, {{"policies", "{}"}})) == 32.0 * 84.0);
  CHECK(estimated_operations(resolve(kSmall, {{"policies", "{ memfine: { bins: [1, 8] } }"}})) == 32.0 * 252.0);
  CHECK(estimated_operations(resolve(kSmall, {{"policies", "{ lrmoe: {} }"}})) == 64.0 * 84.0 + 6144.0);
}

TEST_CASE("work above the bound is refused with the estimate and the limit that allows it") {
  // 1e9 / 4992 = 200320.5 iterations.
  Options options = options_with();
  options.iterations = 200320;
  CHECK(faults_with(kSmall, options).empty());
  options.iterations = 200321;
  const std::vector<base::Fault> faults = faults_with(kSmall, options);
  REQUIRE(faults.size() == 1);
  const std::string text = base::format_fault(faults[0]);
  CHECK(holds(text,
              "needs about 1.0e+09 operations (4 ranks x 4 layers of a stage x 2 microbatches x 200321 iterations"));
  CHECK(holds(text, "--limit 2 allows it"));
  options.limit = 2.0;
  CHECK(faults_with(kSmall, options).empty());
}

TEST_CASE("memory of many expert groups is estimated and bounded") {
  // 2^17 GPUs of one member each: 131,072 groups x 3 layers x 8 microbatches x (400 + 4 x (4 + 96 + 4 + 120)) bytes,
  // and 4 kB a rank: 4.7e9. Under an expert capacity every group has rows of its own.
  const Settings even = {{"gpus", "131072"}, {"ep", "1"}, {"gbs", "1048576"}, {"seq", "4"}};
  Settings many = even;
  many.emplace_back("policies", "{ capacity: {}, memfine: { rule: fixed, chunks: 4 } }");
  const std::string text = refusal(kSmall, many);
  CHECK(holds(text, "GiB of memory for the rows of 131072 expert groups, more than the bound of 4.0 GiB"));
  CHECK(holds(text, "--limit 2 allows it"));
}

TEST_CASE("tokens and copies stay below 2^31") {
  // 4 members x 2 experts a token x 2^22 positions x 64 samples = 2^31 copies: one too many; 63 samples are 31/32 of
  // it.
  const Settings at_bound = {{"seq", "4194304"}, {"mbs", "64"}, {"gbs", "512"}};
  CHECK(holds(refusal(kSmall, at_bound), "more than 2^31 - 1 cannot be counted"));
  const Settings below = {{"seq", "4194304"}, {"mbs", "63"}, {"gbs", "504"}};
  CHECK(refusal(kSmall, below).empty());
}

TEST_CASE("shapes whose bytes cannot be counted are refused") {
  const Settings wide = {{"seq", "4194304"},
                         {"mbs", "32"},
                         {"gbs", "16777216"},
                         {"model.hidden_size", "262144"},
                         {"model.vocab_size", "16777216"}};
  CHECK(holds(refusal(kSmall, wide), "cannot be counted"));
}

TEST_CASE("values beyond any cluster are refused by their range") {
  CHECK(holds(refusal(kSmall, {{"gpus", "9223372036854775807"}}), "expected an integer from 1 to 131072"));
  CHECK(holds(refusal(kSmall, {{"gbs", "99999999999999999999"}}), "expected an integer"));
}
