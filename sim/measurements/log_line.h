#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Single lines of benchmark logs.
namespace moeplan::measurements {

// A line without what mpirun --tag-output ("[1,0]<stdout>:") and srun --label (" 0: ") put before it, and that prefix:
// lines of one process share it.
struct Tagged {
  std::string_view tag, text;
};
Tagged split_tag(std::string_view line);

std::vector<std::string_view> words_of(std::string_view text);  // between blanks
std::string_view trimmed(std::string_view text);
std::optional<double> number_of(std::string_view word);         // finite, >= 0, the whole word
std::optional<std::int64_t> integer_of(std::string_view word);  // the whole word

// Half of one in the last digit that a number is printed with: 0.005 of "12.34".
double half_digit_of(std::string_view number);

// "all_reduce" of "all_reduce_perf", "alltoall" of a file name "b200-all-to-all.txt"; empty when none is named.
std::string collective_of_program(std::string_view text);  // needs the ending of a program: _perf, or HCCL's _test
std::string collective_of_name(std::string_view text);
// The number behind a flag of a launch line ("-np", "-n"), 0 when it is not there.
std::int64_t flag_value(std::string_view line, std::string_view flag);

// "#  Rank 12 Group 0 Pid 9 on host-a device 3 [0x5d] NVIDIA H100 80GB HBM3".
struct RankLine {
  std::int64_t rank = 0;
  std::string host, gpu;
};
std::optional<RankLine> parse_rank_line(std::string_view text);

// Names of the columns of "#  size count type redop root time algbw busbw #wrong ..."; empty for another line.
std::vector<std::string> parse_columns(std::string_view text);

// One row of a table.
struct Timing {
  std::int64_t size = 0;
  double time_us = 0, algbw = 0, busbw = 0;  // GB/s; 0 where not printed
  double half_digit = 0.005;                 // of the bandwidths: half a unit of the last printed digit
  bool bandwidths = false;                   // both were printed
  std::int64_t wrong = 0;                    // values that were wrong
};
enum class RowKind { none, row, cut, nothing_measured };
// `columns` of the table's header, empty when the log does not show it. `none`: not a row at all.
RowKind parse_row(std::string_view text, const std::vector<std::string>& columns, Timing& timing);

}  // namespace moeplan::measurements
