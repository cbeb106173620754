#include "routing/npy.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/error.h"
#include "routing/npy_header.h"

static_assert(std::endian::native == std::endian::little, "values are read as they lie in the file");

namespace moeplan::routing {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

template <typename T>
T value_at(const NpyArray& array, std::size_t i) {
  T value;
  std::memcpy(&value, array.data.data() + i * sizeof(T), sizeof(T));
  return value;
}

// IEEE half precision: 1 sign, 5 exponent, 10 fraction bits.
double half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double value = std::ldexp(fraction, -24);
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent > 0) {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

double float_at(const NpyArray& array, std::size_t i) {
  switch (array.item_bytes) {
    case 2:
      return half_value(value_at<std::uint16_t>(array, i));
    case 4:
      return static_cast<double>(value_at<float>(array, i));
    default:
      return value_at<double>(array, i);
  }
}

std::int64_t signed_at(const NpyArray& array, std::size_t i) {
  switch (array.item_bytes) {
    case 1:
      return value_at<std::int8_t>(array, i);
    case 2:
      return value_at<std::int16_t>(array, i);
    case 4:
      return value_at<std::int32_t>(array, i);
    default:
      return value_at<std::int64_t>(array, i);
  }
}

std::uint64_t unsigned_at(const NpyArray& array, std::size_t i) {
  switch (array.item_bytes) {
    case 1:
      return value_at<std::uint8_t>(array, i);
    case 2:
      return value_at<std::uint16_t>(array, i);
    case 4:
      return value_at<std::uint32_t>(array, i);
    default:
      return value_at<std::uint64_t>(array, i);
  }
}

// "<i4": little endian, signed integer, 4 bytes. '|' stands where the order of bytes does not matter.
void set_type(const std::string& descr, const base::Where& where, NpyArray& array) {
  const auto refuse = [&](const std::string& why) {
    throw base::Error(where, fmt::format("type '{}': {}", descr, why),
                      "expected little-endian integers of 1 to 8 bytes or floats of 2, 4 or 8");
  };
  if (descr.find('O') != std::string::npos) refuse("pickled objects are not read");
  if (descr.size() != 3) refuse("not a type of numbers that is read");
  if (descr[0] == '>') refuse("big-endian values are not read");
  const std::string_view sizes = descr[1] == 'f' ? "248" : "1248";
  const bool known = descr[1] == 'i' || descr[1] == 'u' || descr[1] == 'f';
  if (!known || sizes.find(descr[2]) == std::string_view::npos) refuse("not a type of numbers that is read");
  if (descr[0] != '<' && !(descr[0] == '|' && descr[2] == '1')) refuse("not a type of numbers that is read");
  array.kind = descr[1];
  array.item_bytes = static_cast<std::size_t>(descr[2] - '0');
}

}  // namespace

NpyArray parse_npy(std::string_view bytes, const std::string& file, const std::string& name) {
  const base::Where where{file, 0, 0, name};
  if (!bytes.starts_with(kMagic)) throw base::Error(where, "not an array of NumPy: the first bytes are not \\x93NUMPY");
  bytes.remove_prefix(kMagic.size());
  if (bytes.size() < 2) throw base::Error(where, "the file is cut in its header");
  const int version = static_cast<unsigned char>(bytes[0]);
  if (version != 1 && version != 2) {
    throw base::Error(where, fmt::format("format version {}, expected 1 or 2", version));
  }
  bytes.remove_prefix(2);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < length_bytes) throw base::Error(where, "the file is cut in its header");
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data(), length_bytes);
  bytes.remove_prefix(length_bytes);
  if (length > bytes.size()) throw base::Error(where, "the file is cut in its header");

  const NpyHeader header = parse_npy_header(bytes.substr(0, length), where);
  NpyArray array;
  array.name = name;
  set_type(header.descr, where, array);
  if (header.fortran_order) {
    throw base::Error(where, "the values are in Fortran order", "save numpy.ascontiguousarray(array)");
  }
  array.shape = header.shape;
  array.data = bytes.substr(length);
  std::optional<std::int64_t> size = static_cast<std::int64_t>(array.item_bytes);
  for (const std::int64_t extent : array.shape) size = size ? base::checked_multiply(*size, extent) : size;
  if (!size || static_cast<std::uint64_t>(*size) != array.data.size()) {
    throw base::Error(where, fmt::format("{} values of {} bytes are not the {} bytes that follow the header",
                                         shape_text(array), array.item_bytes, array.data.size()));
  }
  if (*size == 0) throw base::Error(where, "the array is empty: its shape is " + shape_text(array));
  return array;
}

std::optional<std::int64_t> whole_at(const NpyArray& array, std::size_t i) {
  if (array.kind == 'i') return signed_at(array, i);
  if (array.kind == 'u') {
    const std::uint64_t value = unsigned_at(array, i);
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }
  constexpr double kExact = 9007199254740992.0;  // 2^53: above it a double skips whole numbers
  const double value = float_at(array, i);
  if (!(std::abs(value) <= kExact) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::string integer_text(const NpyArray& array, std::size_t i) {
  return array.kind == 'u' ? std::to_string(unsigned_at(array, i)) : std::to_string(signed_at(array, i));
}

double real_at(const NpyArray& array, std::size_t i) {
  if (array.kind == 'f') return float_at(array, i);
  return array.kind == 'i' ? static_cast<double>(signed_at(array, i)) : static_cast<double>(unsigned_at(array, i));
}

std::string shape_text(const NpyArray& array) {
  std::string text;
  for (const std::int64_t extent : array.shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", extent);
  return "[" + text + "]";
}

}  // namespace moeplan::routing
