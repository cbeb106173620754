#include "device/samples.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace moeplan::device {
namespace {

StoppingRule fed(const StoppingOptions& options, std::int64_t count, double seconds) {
  StoppingRule rule(options);
  // 100, 101, 102, 103, 100, ...: the interval of the median is some per cent wide.
  for (std::int64_t i = 0; i < count; ++i) rule.add(100 + static_cast<double>(i % 4), seconds);
  return rule;
}

}  // namespace

TEST_CASE("quantiles lie between the samples, in any order of them") {
  CHECK(median_of({3, 1, 2}) == 2);
  CHECK(median_of({4, 1, 3, 2}) == 2.5);
  // Places 0..3; nine tenths of three steps is 2.7: 3 + 0.7.
  CHECK(quantile_of({4, 1, 3, 2}, 0.9) == doctest::Approx(3.7));
  CHECK(quantile_of({5}, 0.1) == 5);
  CHECK(quantile_of({1, 2}, 0) == 1);
  CHECK(quantile_of({1, 2}, 1) == 2);
  CHECK_THROWS_AS(median_of({}), std::invalid_argument);
}

TEST_CASE("the interval of the median is that of its order statistics") {
  CHECK(median_uncertainty({1, 2, 3, 4, 5}) == 1);  // too few
  // Nine samples 101..109: middle place 4 (105), reach 0.98 * 3 = 2.94 places: from 102.06 to 107.94, half 2.94.
  CHECK(median_uncertainty({101, 102, 103, 104, 105, 106, 107, 108, 109}) == doctest::Approx(2.94 / 105));
  // A late sample at the end moves nothing.
  CHECK(median_uncertainty({101, 102, 103, 104, 105, 106, 107, 108, 1e6}) == doctest::Approx(2.94 / 105));
  // Six: the reach of 2.4 places lies within the 2.5 to either end.
  CHECK(median_uncertainty({7, 7, 7, 7, 7, 7}) == 0);
}

TEST_CASE("samples are taken until the median is certain, or enough of them, or enough time") {
  StoppingOptions options;
  options.least = 20;
  options.most = 50;
  options.uncertainty = 0.001;
  options.most_seconds = 1;
  CHECK(fed(options, 19, 10).reason() == StopReason::running);  // the least are taken however long they are
  CHECK(fed(options, 20, 10).reason() == StopReason::time);
  CHECK(fed(options, 49, 1e-6).reason() == StopReason::running);
  CHECK(fed(options, 50, 1e-6).reason() == StopReason::samples);
  options.uncertainty = 0.05;
  CHECK(fed(options, 20, 1e-6).reason() == StopReason::certain);
  CHECK(fed(options, 20, 1e-6).samples().size() == 20);
  CHECK(fed(options, 20, 1e-6).done());
  options.most_seconds = 20 * 0.05;
  options.uncertainty = 0;
  CHECK(fed(options, 20, 0.05).reason() == StopReason::time);       // exactly the time
  CHECK(fed(options, 20, 0.0499).reason() == StopReason::running);  // just below
  CHECK(std::string(stop_reason_name(StopReason::certain)) == "certain");
}

TEST_CASE("short operations are repeated, long ones are not") {
  CHECK(repetitions_for(10e-6, 200e-6, 64) == 20);
  CHECK(repetitions_for(1e-6, 200e-6, 64) == 64);
  CHECK(repetitions_for(199e-6, 200e-6, 64) == 2);
  CHECK(repetitions_for(200e-6, 200e-6, 64) == 1);
  CHECK(repetitions_for(1, 200e-6, 64) == 1);
  CHECK(repetitions_for(0, 200e-6, 64) == 64);  // below the clock's resolution
}

TEST_CASE("buffers rotate until the cache was filled twice between two uses of one") {
  // 60 MB of cache, 40 MB an operation: 120 / 40 = 3 sets between two uses, 4 in all.
  CHECK(rotation_for(40e6, 60e6, 16) == 4);
  CHECK(rotation_for(1e6, 60e6, 16) == 16);
  CHECK(rotation_for(1e9, 60e6, 16) == 2);
  CHECK(rotation_for(0, 60e6, 16) == 1);
}

}  // namespace moeplan::device
