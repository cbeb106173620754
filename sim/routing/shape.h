#pragma once
#include <cstdint>
#include <string>

#include "routing/loads.h"

// What all load sources do with the shape of a step.
namespace moeplan::routing {

// Throws base::Error when a size is below 1, top_k exceeds the experts, or a product leaves the range that the counts
// can hold: 2^31 - 1 tokens a microbatch, 65,535 experts, 64 experts a token.
void require_shape(const StepShape& shape);

std::int64_t tokens_of_microbatch(const StepShape& shape);  // of one replica
double tokens_of_step(const StepShape& shape);              // of all replicas and microbatches of one iteration

std::string with_thousands(std::int64_t value);             // "262,144"
std::string counted(std::int64_t value, std::string noun);  // "1 line", "8,327 lines"

}  // namespace moeplan::routing
