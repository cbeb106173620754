#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "measurements/measurement.h"

// Tables of measurements: CSV with a header, or JSON lines, one object a line with the same fields.
namespace moeplan::measurements {

inline constexpr std::int64_t kMostFileBytes = std::int64_t{256} << 20;  // of a table or a log

// A row that cannot be read is set aside with status error and the fault's place; a kind that no cost model describes
// is skipped with the reason. Throws base::Error for what makes the whole table unusable: no header, a header without
// the columns of a measurement, a column that stands twice, no rows.
MeasurementTable parse_measurements(std::string_view text, const std::string& file);
MeasurementTable read_measurements(const std::string& path);

// Keeps the rows whose cell in `column` is `value`. Throws base::Error for a column that the table does not have.
void keep_where(MeasurementTable& table, const std::string& column, const std::string& value,
                const std::string& option);

// The columns that rows are read from.
const std::vector<std::string>& known_columns();
// What lines of moeplan-device say beside: samples, clocks, versions.
const std::vector<std::string>& device_columns();
// Fills a measurement from its cells, its where, id and faults being set.
void read_fields(Measurement& row);

}  // namespace moeplan::measurements
