#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace moeplan::routing {

// Whole numbers, each in as few bytes as the largest so far needs: two up to 65,535, four up to 2^32 - 1, else eight
// (negative ones too). Tables of counts have hundreds of millions of entries, nearly all of them small.
class CountTable {
 public:
  CountTable() = default;
  CountTable(std::initializer_list<std::int64_t> counts) { append(std::span(counts.begin(), counts.size())); }
  void reserve(std::size_t entries);
  void append(std::span<const std::int64_t> counts);
  std::size_t size() const;
  std::size_t bytes() const;  // of the entries
  std::vector<std::int64_t> part(std::size_t first, std::size_t count) const;

 private:
  enum class Width : std::uint8_t { two, four, eight };
  static Width width_of(std::span<const std::int64_t> counts);
  void widen(Width width);

  Width width_ = Width::two;
  std::vector<std::uint16_t> two_;
  std::vector<std::uint32_t> four_;
  std::vector<std::int64_t> eight_;
};

}  // namespace moeplan::routing
