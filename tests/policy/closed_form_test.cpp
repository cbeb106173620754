#include "policy/closed_form.h"

#include <doctest/doctest.h>

#include <cmath>

#include "policy/lrmoe.h"
#include "policy/memfine.h"

using namespace moeplan::policy;

namespace {

// MemFine, section 4 (arXiv 2511.21431): DeepSeek-V3's shapes, sequence 4096, micro batch 1, no TP or CP, bf16.
ClosedFormShape paper() {
  ClosedFormShape shape;
  shape.hidden = 7168;
  shape.heads = 128;
  shape.kv_heads = 128;
  shape.head_dim = 192;
  shape.experts = 256;
  shape.expert_ffn = 2048;
  shape.seq = 4096;
  return shape;
}

constexpr double kRows = 597000;  // received rows for which one chunk gives the 22.9 GB of the paper's Table 4

double round_tenth_gb(double bytes) { return std::round(bytes / 1e8) / 10; }

}  // namespace

TEST_CASE("the token term is 0.8997e9 bytes for the paper's shapes") {
  // 2 * 4096 * (5*7168 + 128*192 + 2*128*192 + 256) = 8192 * (35840 + 24576 + 49152 + 256) = 8192 * 109824 =
  // 899,678,208
  CHECK(token_term_bytes(paper()) == 899678208.0);
}

TEST_CASE("the token term scales with micro batch and bytes and divides by tp and cp") {
  ClosedFormShape shape = paper();
  shape.micro_batch = 3;
  shape.dtype_bytes = 4;
  shape.tp = 2;
  shape.cp = 4;
  CHECK(token_term_bytes(shape) == 899678208.0 * 3 * 2 / 8);
  CHECK(row_bytes(shape) == 2 * 36864.0);  // rows are those of the rank already: only the bytes of an element count
}

TEST_CASE("a dense layer keeps both halves of its first projection instead of router scores") {
  // 8192 * (35840 + 24576 + 49152 + 2*18432) = 8192 * 146432
  CHECK(dense_token_term_bytes(paper(), 18432) == 1199570944.0);
}

TEST_CASE("a received row is 36,864 bytes for the paper's shapes") {
  CHECK(row_bytes(paper()) == 36864.0);  // 2 * (2*7168 + 2*2048)
}

TEST_CASE("the activation of Table 4 follows for 1, 2 and 8 chunks") {
  // 0.899678 + 36864e-9 * 597000 / c = 0.899678 + 22.007808 / c
  CHECK(activation_bytes(paper(), kRows, 1, 1) / 1e9 == doctest::Approx(22.907486).epsilon(1e-6));
  CHECK(activation_bytes(paper(), kRows, 2, 1) / 1e9 == doctest::Approx(11.903582).epsilon(1e-6));
  CHECK(activation_bytes(paper(), kRows, 8, 1) / 1e9 == doctest::Approx(3.650654).epsilon(1e-6));
  // The paper prints 22.9, 11.9 and 3.7.
  CHECK(std::fabs(activation_bytes(paper(), kRows, 1, 1) / 1e9 - 22.9) < 0.06);
  CHECK(std::fabs(activation_bytes(paper(), kRows, 2, 1) / 1e9 - 11.9) < 0.06);
  CHECK(std::fabs(activation_bytes(paper(), kRows, 8, 1) / 1e9 - 3.7) < 0.06);
}

TEST_CASE("the savings of the paper follow from its figures rounded to 0.1 GB") {
  const double one = round_tenth_gb(activation_bytes(paper(), kRows, 1, 1));
  const double two = round_tenth_gb(activation_bytes(paper(), kRows, 2, 1));
  const double eight = round_tenth_gb(activation_bytes(paper(), kRows, 8, 1));
  CHECK(std::fabs(100 * (eight / one - 1) + 83.84) < 0.005);  // 3.7 / 22.9
  CHECK(std::fabs(100 * (two / one - 1) + 48.03) < 0.005);    // 11.9 / 22.9
}

TEST_CASE("microbatches in flight multiply the whole activation") {
  CHECK(activation_bytes(paper(), kRows, 4, 7) == doctest::Approx(7 * activation_bytes(paper(), kRows, 4, 1)));
}

TEST_CASE("six runs of Table 4: all but model I without chunks fit") {
  // 64 GB cards of which 0.94 * 2^30 / 1e9 * 64 = 64.6 GB are offered; only 43.0 + 22.9 = 65.9 is more.
  const double offered = 0.94 * 64 * 1073741824.0;
  const auto fits = [&](double fixed, std::int64_t chunks) {
    return fixed + activation_bytes(paper(), kRows, chunks, 1) <= offered;
  };
  CHECK_FALSE(fits(43.0e9, 1));
  CHECK(fits(43.0e9, 8));
  CHECK(fits(43.0e9, 2));
  CHECK(fits(39.5e9, 1));
  CHECK(fits(39.5e9, 8));
  CHECK(fits(39.5e9, 2));
}

TEST_CASE("the row budget of equation 8 and the two chunks that the paper chose") {
  const double kept = token_term_bytes(paper());
  // (0.9*64e9 - 43.0e9 - 0.899678e9) / 36864 = 13.700322e9 / 36864 = 371,645
  const double first = max_rows(64e9, 0.9, 43.0e9, kept, row_bytes(paper()), 1);
  CHECK(first == doctest::Approx(371645).epsilon(1e-5));
  // (57.6e9 - 39.5e9 - 0.899678e9) / 36864 = 17.200322e9 / 36864 = 466,589
  const double second = max_rows(64e9, 0.9, 39.5e9, kept, row_bytes(paper()), 1);
  CHECK(second == doctest::Approx(466589).epsilon(1e-5));
  const std::vector<std::int64_t> bins = {1, 2, 4, 8};
  CHECK(adaptive_chunks(kRows, first, bins) == 2);   // 1.61
  CHECK(adaptive_chunks(kRows, second, bins) == 2);  // 1.28
}

TEST_CASE("kept rows in flight divide the budget, and a full card has none") {
  CHECK(max_rows(1000, 0.5, 100, 100, 10, 1) == 30.0);  // (500 - 200) / 10
  CHECK(max_rows(1000, 0.5, 100, 100, 10, 3) == 10.0);
  CHECK(max_rows(1000, 0.5, 250, 250, 10, 1) == 0.0);
  CHECK(max_rows(1000, 0.5, 400, 250, 10, 1) == 0.0);
}

TEST_CASE("chunks in flight: the paper's formula, and the real count of plain 1F1B") {
  // p = 4, v = 1: v p + p - 2 r - 1 = 7, 5, 3, 1; really p - r = 4, 3, 2, 1
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    CHECK(in_flight_chunks(4, stage, 1, true) == static_cast<double>(7 - 2 * stage));
    CHECK(in_flight_chunks(4, stage, 1, false) == static_cast<double>(4 - stage));
  }
  // v = 2, p = 4, r = 1: 8 + 4 - 2 - 1 = 9, in both
  CHECK(in_flight_chunks(4, 1, 2, true) == 9.0);
  CHECK(in_flight_chunks(4, 1, 2, false) == 9.0);
  CHECK(in_flight_chunks(1, 0, 1, true) == 1.0);
}

TEST_CASE("a retained row costs D (3h + 5g) bytes, which sets what one more expert instance displaces") {
  // Qwen3-30B-A3B: h 2048, g 768: 2 * (6144 + 3840) = 19,968 B. An instance: weights and gradients in bf16, 2 * 2 * 3 *
  // 2048 * 768 = 18,874,368 B.
  CHECK(redispatch_row_bytes(2048, 768, 2) == 19968.0);
  CHECK(18874368.0 / redispatch_row_bytes(2048, 768, 2) == doctest::Approx(945).epsilon(1e-3));
  // GLM-4.5-Air: h 4096, g 1408: 2 * (12288 + 7040) = 38,656 B; 4 * 3 * 4096 * 1408 = 69,206,016 B.
  CHECK(redispatch_row_bytes(4096, 1408, 2) == 38656.0);
  CHECK(69206016.0 / redispatch_row_bytes(4096, 1408, 2) == doctest::Approx(1790).epsilon(1e-3));
  // Over MemFine's lower figure, D (2h + 2g), the same instances displace 1,676 and 3,143 rows.
  ClosedFormShape qwen, glm;
  qwen.hidden = 2048, qwen.expert_ffn = 768;
  glm.hidden = 4096, glm.expert_ffn = 1408;
  CHECK(18874368.0 / row_bytes(qwen) == doctest::Approx(1676).epsilon(1e-3));
  CHECK(69206016.0 / row_bytes(glm) == doctest::Approx(3143).epsilon(1e-3));
}
