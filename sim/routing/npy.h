#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Arrays as NumPy writes them (.npy, format versions 1 and 2: numpy/lib/format.py), without NumPy.
namespace moeplan::routing {

// Integers of 1 to 8 bytes and floats of 2 to 8, little endian, in C order.
struct NpyArray {
  std::string name;  // "routed_experts"; for messages
  char kind = 'i';   // 'i' signed, 'u' unsigned, 'f' float
  std::size_t item_bytes = 0;
  std::vector<std::int64_t> shape;  // empty: one value
  std::string_view data;            // size() * item_bytes, of the bytes that were parsed
  std::size_t size() const { return data.size() / item_bytes; }
};

// Throws base::Error naming `file`: another format, version or type, Fortran order, big endian, pickled objects, a
// shape that does not fit the bytes. `bytes` must outlive the array.
NpyArray parse_npy(std::string_view bytes, const std::string& file, const std::string& name);

// Value i; nothing when it is a fraction, not finite, or (as a float or an unsigned one) above 2^53 or 2^63 - 1.
std::optional<std::int64_t> whole_at(const NpyArray& array, std::size_t i);
std::string integer_text(const NpyArray& array, std::size_t i);  // of an array of integers, whatever their size
double real_at(const NpyArray& array, std::size_t i);

// "[8327, 26, 6]".
std::string shape_text(const NpyArray& array);

}  // namespace moeplan::routing
