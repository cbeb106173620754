#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Quantities are held in base units: bytes, bytes per second, seconds, FLOP per second. Text forms carry their unit.
namespace moeplan::base {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
inline constexpr double kMiB = 1024.0 * 1024.0;

enum class Dimension { bytes, bytes_per_second, seconds, flop_per_second, hertz };

// "a size such as '80 GiB'" and so on: what an error says it expected.
std::string dimension_example(Dimension dimension);

// Value in base units of "80 GiB", "450 GB/s", "400 Gb/s", "12 us", "989 TFLOP/s" (also TFLOPS), "1980 MHz".
// Decimal prefixes k M G T P are powers of 1000, binary Ki Mi Gi Ti powers of 1024; lower-case b is bits.
// Nothing when the text is not a finite number >= 0 followed by a unit of that dimension (a bare number has no unit).
std::optional<double> parse_quantity(std::string_view text, Dimension dimension);

// Control characters as \xHH, so that text of files cannot steer a terminal or break a table.
std::string printable(std::string_view text);

std::string format_gib(double bytes);       // "12.34 GiB"
std::string format_time(double seconds);    // "1.234 s", "12.3 ms", "45.6 us"
std::string format_rate(double bytes_per_second);  // "45.0 GB/s"

}  // namespace moeplan::base
