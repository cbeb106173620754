#pragma once
#include <cstdint>

// MemFine's closed form (arXiv 2511.21431, Table 2 and equations 2, 3 and 8). Bytes; dtype_bytes = D_t.
namespace moeplan::policy {

struct ClosedFormShape {
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;  // head_dim: of q and k (192 for MLA)
  std::int64_t experts = 0, expert_ffn = 0;
  std::int64_t tp = 1, cp = 1, micro_batch = 1, seq = 0, dtype_bytes = 2;
};

// Bytes of one MoE layer that do not depend on routing: D b s (5h + a h_d + 2 k_a h_d + e_n) / (t c).
double token_term_bytes(const ClosedFormShape& shape);
// The same for a dense layer: without the router's e_n, plus s 2 g_d in place of the routed part (our extension).
double dense_token_term_bytes(const ClosedFormShape& shape, std::int64_t dense_ffn);
// Bytes of one received row: D b (2h + 2 g_e) / (t c), with b folded into the rows of this program (rows already count
// every sample): D (2h + 2g_e).
double row_bytes(const ClosedFormShape& shape);
// Activation bytes of equation 2 for `rows` received rows, chunked: in_flight * (token term + row_bytes * rows /
// chunks).
double activation_bytes(const ClosedFormShape& shape, double rows, std::int64_t chunks, double in_flight);
// Equation 8: rows that fit; 0 when even none does. kept_bytes: activations that do not depend on routed rows, all in
// flight; routed_in_flight: 1 when the routed part is recomputed.
double max_rows(double capacity_bytes, double alpha, double static_bytes, double kept_bytes, double bytes_per_row,
                double routed_in_flight);
// m_g of the paper: v p + p - 2 r - 1 (interleaved), or 1F1B's real count p - r where v = 1 and !paper.
double in_flight_chunks(std::int64_t pp, std::int64_t stage, std::int64_t virtual_stages, bool paper);

}  // namespace moeplan::policy
