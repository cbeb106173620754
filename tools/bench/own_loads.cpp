#include "own_loads.h"

#include <fstream>
#include <stdexcept>
#include <vector>

namespace moeplan::bench {

namespace {

std::uint64_t mix(std::uint64_t x) {  // SplitMix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// One row: shares from 1 to 4, rounded down, the rest to the first experts.
void draw(std::uint64_t seed, std::int64_t rows, std::vector<std::uint16_t>& counts) {
  std::vector<std::int64_t> shares(counts.size());
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    shares[e] = 64 + static_cast<std::int64_t>(mix(seed * counts.size() + e) % 193);
    sum += shares[e];
  }
  std::int64_t left = rows;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    counts[e] = static_cast<std::uint16_t>(rows * shares[e] / sum);
    left -= counts[e];
  }
  for (std::size_t e = 0; left > 0; ++e, --left) ++counts[e % counts.size()];
}

}  // namespace

void write_own_loads(const std::string& path, std::int64_t microbatches, std::int64_t replicas, std::int64_t layers,
                     std::int64_t experts, std::int64_t rows_of_replica) {
  std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (1, " + std::to_string(microbatches) + ", " +
                       std::to_string(replicas) + ", " + std::to_string(layers) + ", " + std::to_string(experts) +
                       "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  const char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0};
  file.write(magic, sizeof magic);
  const char size[] = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file.write(size, sizeof size);
  file << header;
  std::vector<std::uint16_t> counts(static_cast<std::size_t>(experts));
  for (std::int64_t row = 0; row < microbatches * replicas * layers; ++row) {
    draw(static_cast<std::uint64_t>(row), rows_of_replica, counts);
    file.write(reinterpret_cast<const char*>(counts.data()), static_cast<std::streamsize>(2 * counts.size()));
  }
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace moeplan::bench
