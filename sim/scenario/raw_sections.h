#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "config/reader.h"
#include "scenario/raw.h"

// Readers of the sections of a scenario, and how they refuse what this version does not do. For raw*.cpp only.
namespace moeplan::scenario {

inline constexpr double kMaxDeviceBytes = 1e15;  // of one device: sums of such sizes stay exact in 64 bits

void read_parallel(config::Reader reader, Raw& raw);
void read_training(config::Reader reader, Raw& raw);
void read_optimizer(config::Reader reader, Raw& raw);
void read_memory(config::Reader reader, Raw& raw);
void read_moe(config::Reader reader, Raw& raw);
void read_routing(config::Reader reader, Raw& raw);

// "VALUE is not supported in this version; expected EXPECTED" at a key that is there.
void refuse(config::Reader& reader, std::string_view key, const std::string& value, const std::string& expected);

// As Reader::choice_or, for a key some of whose real-world names (`later`) are refused by name instead of as unknown.
std::size_t supported_choice(config::Reader& reader, std::string_view key, std::span<const std::string> supported,
                             std::span<const std::string> later, std::size_t fallback);

}  // namespace moeplan::scenario
