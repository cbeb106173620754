#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memory/replay.h"
#include "search/evaluate.h"

// How figures are written in text.
namespace moeplan::report {

std::string gib(std::int64_t bytes);  // "12.34 GiB"
std::string gib(double bytes);
std::string percent(double fraction);                   // "45 %", below ten "4.5 %"
std::string percent_change(double value, double base);  // "+3.2 %", "-12 %", "-" when there is nothing to compare with
std::string thousands(std::int64_t value);              // "262,144"
std::string ratio(double value);                        // "1.23"
std::string joined(const std::vector<std::string>& parts, std::string_view separator);

// "rank 12 peaks at 41.23 GiB of 74.87 GiB usable (45 % headroom)", or how far above; under closed-form accounting it
// says so.
std::string verdict_sentence(const search::Evaluation& evaluation);
// True when the verdict is that of MemFine's equations, as memory.accounting asks.
bool by_closed_form(const search::Evaluation& evaluation);
// "steady iteration, backward of layer 12, microbatch 3, op expert fc1".
std::string peak_place(const memory::Peak& peak);

// Text with every absolute path cut to its last part: results must not depend on where files lie.
std::string without_absolute_paths(std::string_view text);

}  // namespace moeplan::report
