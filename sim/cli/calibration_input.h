#pragma once
#include <deque>
#include <iosfwd>
#include <vector>

#include "calibrate/fit.h"
#include "cli/arguments.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"

namespace moeplan::cli {

// What `calibrate` reads: tables, lines of moeplan-device, logs of collectives. All of one part.
struct CalibrationInput {
  std::vector<measurements::MeasurementTable> tables;
  std::deque<measurements::Measurement> of_logs;  // rows of logs of collectives; of no GPU where the log names none
  std::vector<const measurements::Measurement*> rows;
  std::vector<measurements::DeviceLine> devices;
  std::int64_t failed_checks = 0;  // of the device program's own results
  calibrate::FitOptions options;   // source, values and collectives are filled
  topology::HardwareProfile base;
};

// Reads every file of `arguments.tables`. The profile is that of --base, or the one that all rows name. Rows, values
// and lines that cannot be used are told on `err`, each reason once with the first place. Throws base::Error for files
// that cannot be read, for several parts without --base, and where nothing of the part is left.
CalibrationInput read_calibration_input(const Arguments& arguments, std::ostream& err);

}  // namespace moeplan::cli
