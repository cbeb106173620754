#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "topology/evidence.h"
#include "topology/hardware.h"

// How far a prediction may be off: errors of the cost models, carried to the step, and what runs were off beside them
// (docs/models.md, Uncertainty).
namespace moeplan::search {

struct Evaluation;

inline constexpr double kCoverage = 0.90;
inline constexpr double kDeviations = 1.645;  // of a normal distribution: 5 % lie beyond on each side

struct Range {
  double low = 0, high = 0;
};

// What measured runs were off, as logarithms of measured / predicted: their median, and how far below and above it the
// 5 % and 95 % quantiles lie, less what the cost models' spreads explain (in quadrature).
struct FormError {
  double middle = 0, below = 0, above = 0;
};
// `logs`: of runs, log(measured / predicted); `deviation`: the median over them of what the cost models explain.
FormError form_of(std::vector<double> logs, double deviation);
// Of the shipped version: from the rows of docs/validation.md that are not judged by it (Intervals there).
FormError step_form();
FormError memory_form();

// [predicted e^(middle - w), predicted e^(middle + w)], w^2 = (1.645 deviation)^2 + below^2 or above^2, widened to hold
// the prediction itself.
Range range_of(double predicted, double deviation, const FormError& form);

// A cost model whose error moves all its times together: a section of the profile.
struct FamilyError {
  std::string family;  // "gemm", "grouped_gemm", "attention", "memory_bound", "dispatch", "network", "host"
  double spread = 0;   // relative standard deviation of its times
  topology::Evidence evidence = topology::Evidence::assumed;
  std::string source;
  double step_change = 0;  // log(step with its times (1 + spread) longer / step)
};
// Spreads of a profile: its own, else what an untested profile gets, with the reason as source.
std::vector<FamilyError> spreads_of(const topology::HardwareProfile& profile);

struct Uncertainty {
  double deviation = 0;  // of the logarithm of the step: families together, independent of each other
  Range step_s, peak_allocated_bytes;
  bool rerun = true;                  // the step was run again for each family; else weighed by where its time goes
  std::vector<FamilyError> families;  // the largest effect first; those without effect stay out
};

// Steps of up to so many operations are run again for each family: about 3 s of one thread.
inline constexpr std::int64_t kMostRerunOps = 2'000'000;
// Needs evaluation.plan where the step has at most kMostRerunOps operations. threads <= 0: all of the machine.
Uncertainty uncertainty(const Evaluation& evaluation, int threads);

}  // namespace moeplan::search
