#include "policy/closed_form.h"

#include <algorithm>

namespace moeplan::policy {
namespace {

// D b s / (t c): bytes of one column of a token-level tensor.
double column_bytes(const ClosedFormShape& shape) {
  return static_cast<double>(shape.dtype_bytes) * static_cast<double>(shape.micro_batch) *
         static_cast<double>(shape.seq) / (static_cast<double>(shape.tp) * static_cast<double>(shape.cp));
}

// 5h (layer input, normed input, attention output, input of the second norm, normed hidden) + Q + K + V.
double attention_columns(const ClosedFormShape& shape) {
  const double head_dim = static_cast<double>(shape.head_dim);
  return 5.0 * static_cast<double>(shape.hidden) + static_cast<double>(shape.heads) * head_dim +
         2.0 * static_cast<double>(shape.kv_heads) * head_dim;
}

}  // namespace

double token_term_bytes(const ClosedFormShape& shape) {
  return column_bytes(shape) * (attention_columns(shape) + static_cast<double>(shape.experts));
}

double dense_token_term_bytes(const ClosedFormShape& shape, std::int64_t dense_ffn) {
  return column_bytes(shape) * (attention_columns(shape) + 2.0 * static_cast<double>(dense_ffn));
}

double row_bytes(const ClosedFormShape& shape) {
  return static_cast<double>(shape.dtype_bytes) *
         (2.0 * static_cast<double>(shape.hidden) + 2.0 * static_cast<double>(shape.expert_ffn));
}

double activation_bytes(const ClosedFormShape& shape, double rows, std::int64_t chunks, double in_flight) {
  return in_flight * (token_term_bytes(shape) + row_bytes(shape) * rows / static_cast<double>(chunks));
}

double max_rows(double capacity_bytes, double alpha, double static_bytes, double kept_bytes, double bytes_per_row,
                double routed_in_flight) {
  const double left = alpha * capacity_bytes - static_bytes - kept_bytes;
  return std::max(0.0, left / (routed_in_flight * bytes_per_row));
}

double in_flight_chunks(std::int64_t pp, std::int64_t stage, std::int64_t virtual_stages, bool paper) {
  if (virtual_stages == 1 && !paper) return static_cast<double>(pp - stage);
  return static_cast<double>(virtual_stages * pp + pp - 2 * stage - 1);
}

}  // namespace moeplan::policy
