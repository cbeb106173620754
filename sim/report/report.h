#pragma once
#include <string>
#include <vector>

#include "calibrate/check.h"
#include "calibrate/fit.h"
#include "routing/trace.h"
#include "search/chunk_sweep.h"
#include "search/compare.h"
#include "search/evaluate.h"
#include "search/explain.h"
#include "search/memory_timeline.h"
#include "search/layer_runs.h"
#include "search/operators.h"
#include "search/sweep.h"
#include "search/validate.h"

// What commands print. Text is for a person: the verdict first, then short tables. JSON never loses a figure that the
// text shows; its forms are in docs/json.md.
namespace moeplan::report {

std::string run_text(const search::Evaluation& evaluation);
// Every allocation of one rank: moeplan.memory_timeline/1.
std::string memory_timeline_json(const search::MemoryTimeline& timeline);
std::string run_json(const search::Evaluation& evaluation);

std::string chunks_text(const search::ChunkSweep& sweep);
std::string chunks_json(const search::ChunkSweep& sweep);

std::string compare_text(const std::vector<search::PolicyResult>& results);
std::string compare_json(const std::vector<search::PolicyResult>& results);

// `top`: rows of each table of changes.
std::string explain_text(const search::Explanation& explanation, std::size_t top);
std::string explain_json(const search::Explanation& explanation);

// A sweep's table: header, then a row at a time as rows finish.
std::string sweep_header(const std::vector<search::Axis>& axes);
std::string sweep_row(const std::vector<search::Axis>& axes, const search::SweepRow& row);
std::string sweep_json(const std::vector<search::Axis>& axes, const std::vector<search::SweepRow>& rows, bool complete);
// The same rows one a line, to be written as they finish (docs/json.md): CSV, and a JSON object each.
std::string sweep_csv_header(const std::vector<search::Axis>& axes);
std::string sweep_csv_row(const search::SweepRow& row);
std::string sweep_jsonl_row(const std::vector<search::Axis>& axes, const search::SweepRow& row);

// ranks: numbers of EP ranks to show max over mean for (those that divide the experts).
std::string trace_text(const routing::Trace& trace, const std::vector<std::int64_t>& ranks);
std::string trace_json(const routing::Trace& trace, const std::vector<std::int64_t>& ranks);

// Markdown is docs/validation.md: the same tables under a preface.
std::string validate_text(const search::Validation& validation);
std::string validate_json(const search::Validation& validation);
std::string validate_markdown(const search::Validation& validation);

// calibrate fit.
std::string calibrate_text(const calibrate::Fit& fit);
std::string calibrate_json(const calibrate::Fit& fit);
// calibrate check.
std::string check_text(const calibrate::MachineCheck& check);
std::string check_json(const calibrate::MachineCheck& check);

// validate --layer.
std::string layers_text(const search::LayerValidation& validation);
std::string layers_json(const search::LayerValidation& validation);
// validate --operators.
std::string operators_text(const search::OperatorValidation& validation);
std::string operators_json(const search::OperatorValidation& validation);

}  // namespace moeplan::report
