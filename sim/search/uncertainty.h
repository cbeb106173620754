#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenario/settings.h"
#include "topology/evidence.h"
#include "topology/hardware.h"

// How far a prediction may be off: errors of the cost models, carried to the step, and what runs were off beside them
// (docs/models.md, Uncertainty).
namespace moeplan::search {

struct Evaluation;

inline constexpr double kCoverage = 0.90;
inline constexpr std::size_t kTail = 20;      // one in so many lies beyond, on each side
inline constexpr double kDeviations = 1.645;  // of a normal distribution: as many
struct Range {
  double low = 0, high = 0;
};

// What measured runs were off, in units of what the cost models' spreads make of each: 5 % and 95 % ends of
// log(measured / predicted) / deviation. Errors of the model of a step (what it leaves out, what a run's description
// leaves open) grow with those of the models in it, more than the spreads of single operations tell.
struct FormError {
  double low = 0, high = 0;
};
// Of n scores what lies at rank (n + 1) / 20, between two of them or at the first, and as far from the end: nine in ten
// of further runs like them lie between. Of no scores 0.
FormError form_of(std::vector<double> scores);
// Of the shipped version: from half of the groups of measured runs whose settings are all stated; the others judge the
// intervals (Intervals in docs/validation.md).
FormError step_form();
FormError memory_form();  // deviation 1: no fitted model stands behind memory

// [predicted e^(deviation low), predicted e^(deviation high)]; low is at most -least and high at least `least`: what
// the cost models' spreads make of the prediction by themselves (kDeviations), or 0 to hold the prediction itself.
Range range_of(double predicted, double deviation, const FormError& form, double least);

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
