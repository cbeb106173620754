#pragma once
#include <iosfwd>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/stats.h"

// One function a command. Each returns the exit status (0 or 1); bad input is thrown as base::Error.
namespace moeplan::cli {

struct Context {
  const Arguments& arguments;
  Output& output;
  std::ostream& err;  // progress
  Stats& stats;
};

int run_command(const Context& context);         // 1 when it does not fit
int sweep_command(const Context& context);       // 1 when no row fits; bad input when every one was refused
int chunks_command(const Context& context);      // 1 when the recommendation does not fit
int compare_command(const Context& context);     // 1 when no set of policies fits
int explain_command(const Context& context);     // 1 when it does not fit and no change makes it fit
int trace_info_command(const Context& context);  // 1 when a check fails
int collective_command(const Context& context);  // one collective, by the fullest link and by fair sharing
int list_command(const Context& context);
int import_hf_command(const Context& context);          // a config.json into a model file
int import_megatron_command(const Context& context);    // a launch script or a dump of arguments into a scenario
int import_runs_command(const Context& context);        // a row of a table of measured runs into a scenario, or a list
int import_nccl_tests_command(const Context& context);  // logs of collectives into a table; bad input when all is aside
int validate_command(const Context& context);           // 1 when a row has errors
int validate_operators_command(const Context& context);  // the same, for a table of timed operations
int validate_layer_command(const Context& context);      // the same, for runs of whole layers on a device
int calibrate_fit_command(const Context& context);       // 1 when a cost model fits poorly, without --force
int calibrate_check_command(const Context& context);     // 1 when the machine deviates from its profile

// --strict: throws an Error with each family of operations whose cost model reads an assumed value of the profile.
void require_evidence(const topology::HardwareProfile& profile);

// The scenario of the arguments, refused under --strict where its profile assumes values.
std::shared_ptr<const scenario::Scenario> load(const Arguments& arguments);

}  // namespace moeplan::cli
