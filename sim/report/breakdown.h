#pragma once
#include <string>

#include "search/evaluate.h"

namespace moeplan::report {

// Bytes by kind that a rank holds all the time, out of what is alive at its peak (static memory is listed there under
// the name of its kind).
plan::BytesByKind static_by_kind(const search::Evaluation& evaluation);

// Where a step's seconds go, in the order in which results show them.
struct TimePart {
  const char* name = "";  // of text
  double seconds = 0;
};
std::vector<TimePart> time_parts(const engine::TimeParts& parts);

// A whole run of training.total_tokens; all 0 when that is not stated.
struct WholeRun {
  double total_tokens = 0;
  double steps = 0;  // whole steps, the last one filled up
  double days = 0;
  double gpu_hours = 0;
};
WholeRun whole_run(const search::Evaluation& evaluation);

// (closed form - replay) / replay of the activations; 0 when replay has none.
double closed_form_gap(const search::Evaluation& evaluation);

// Closed-form bytes as the whole number that results show.
std::int64_t whole_bytes(double bytes);

// Largest over ranks of the bytes alive at once whose size follows the routed rows: dispatch, experts, combine.
std::int64_t routed_peak_bytes(const search::Evaluation& evaluation);

// "0-11, 24-35": the layers of a stage; "none" without.
std::string layers_text(const search::StageSummary& stage);

}  // namespace moeplan::report
