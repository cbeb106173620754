#include "device/shapes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

namespace moeplan::device {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

}  // namespace

TEST_CASE("bytes and FLOPs of a product count each operand once and a weight gradient twice in fp32") {
  // 2 * 4 * 8 * 16 = 1024; 2 * (4 + 8) * 16 + 2 * 32 = 448; wgrad 384 + 8 * 32 = 640; fp8 192 + 64.
  CHECK(product_flop({4, 8, 16, Pass::forward, Type::bf16}) == 1024);
  CHECK(product_bytes({4, 8, 16, Pass::forward, Type::bf16}) == 448);
  CHECK(product_bytes({4, 8, 16, Pass::wgrad, Type::bf16}) == 640);
  CHECK(product_bytes({4, 8, 16, Pass::forward, Type::fp8}) == 256);
  CHECK(std::string(layout_name(Pass::forward)) == "TN");
  CHECK(std::string(layout_name(Pass::dgrad)) == "NN");
  CHECK(std::string(layout_name(Pass::wgrad)) == "NT");
}

TEST_CASE("a linear layer is measured in its three passes, and forward in fp8 where the part has it") {
  std::vector<ProductShape> plan = product_plan({{30, 20}}, {10}, true, 1e12);
  std::sort(plan.begin(), plan.end(), [](const ProductShape& a, const ProductShape& b) {
    return std::make_pair(a.type, a.pass) < std::make_pair(b.type, b.pass);
  });
  REQUIRE(plan.size() == 4);
  const auto is = [](const ProductShape& s, std::int64_t m, std::int64_t n, std::int64_t k) {
    return s.m == m && s.n == n && s.k == k;
  };
  CHECK(is(plan[0], 10, 30, 20));  // forward: tokens x outputs over inputs
  CHECK(is(plan[1], 10, 20, 30));  // dgrad: tokens x inputs over outputs
  CHECK(is(plan[2], 30, 20, 10));  // wgrad: outputs x inputs over tokens
  CHECK(is(plan[3], 10, 30, 20));
  CHECK(plan[3].type == Type::fp8);
  CHECK(product_plan({{30, 20}}, {10}, false, 1e12).size() == 3);
  // 2 * 20 * 40 + 2 * 300 = 2200 bytes forward; dgrad 2 * 30 * 30 + 2 * 200 = 2200; wgrad 2 * 10 * 50 + 8 * 600 = 5800.
  CHECK(product_plan({{30, 20}}, {10}, false, 5799).size() == 2);
  CHECK(product_plan({{30, 20}}, {10}, false, 5800).size() == 3);
}

TEST_CASE("the plan holds each shape once, in an order that does not follow the sizes") {
  const std::vector<ProductShape> plan = product_plan(plan_linears(), {16, 256, 4096}, true, 1e12);
  CHECK(plan.size() == plan_linears().size() * 3 * 4);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, int, int>> seen;
  for (const ProductShape& s : plan) seen.insert({s.m, s.n, s.k, static_cast<int>(s.pass), static_cast<int>(s.type)});
  CHECK(seen.size() == plan.size());
  // Of the first half about half has few tokens: within 4 standard deviations (0.5 / sqrt(84) = 5.5 %).
  const auto few = [](const ProductShape& s) { return (s.pass == Pass::wgrad ? s.k : s.m) == 16; };
  const auto half = plan.begin() + static_cast<std::ptrdiff_t>(plan.size() / 2);
  const double share = static_cast<double>(std::count_if(plan.begin(), half, few)) /
                       static_cast<double>(std::count_if(plan.begin(), plan.end(), few));
  CHECK(share > 0.25);
  CHECK(share < 0.75);
  const std::vector<ProductShape> again = product_plan(plan_linears(), {16, 256, 4096}, true, 1e12);
  CHECK(again.front().n == plan.front().n);
}

TEST_CASE("rows over groups add up, whatever the skew") {
  CHECK(zipf_rows(10, 4, 0, 9) == std::vector<std::int64_t>{3, 3, 2, 2});
  CHECK(zipf_rows(0, 3, 1, 9) == std::vector<std::int64_t>{0, 0, 0});
  CHECK(zipf_rows(5, 1, 2, 9) == std::vector<std::int64_t>{5});
  for (const double exponent : {0.0, 0.6, 1.2, 3.0}) CHECK(sum(zipf_rows(131071, 256, exponent, 5)) == 131071);
  // Exponent 1 over three groups: 1 + 1/2 + 1/3 = 11/6; of 1100 rows 600, 300 and 200, in some order.
  std::vector<std::int64_t> rows = zipf_rows(1100, 3, 1, 5);
  std::sort(rows.begin(), rows.end());
  CHECK(rows == std::vector<std::int64_t>{200, 300, 600});
  CHECK(zipf_rows(1000, 64, 1, 5) == zipf_rows(1000, 64, 1, 5));
  CHECK(zipf_rows(1000, 64, 1, 5) != zipf_rows(1000, 64, 1, 6));  // another seed, another order
  CHECK_THROWS_AS(zipf_rows(1, 0, 0, 0), std::invalid_argument);
}

TEST_CASE("the grouped plan holds balanced and skewed vectors within the memory given") {
  const std::vector<GroupedShape> plan = grouped_plan(4e9);
  std::set<std::string> spreads;
  for (const GroupedShape& shape : plan) {
    CHECK(grouped_bytes(shape) <= 4e9);
    CHECK(sum(shape.rows) <= 131072);
    spreads.insert(shape.distribution);
    if (shape.distribution == "one of all")
      CHECK(std::count(shape.rows.begin(), shape.rows.end(), 0) == static_cast<std::ptrdiff_t>(shape.rows.size()) - 1);
  }
  CHECK(spreads == std::set<std::string>{"balanced", "zipf 0.6", "zipf 1.2", "one of all"});
  // Two groups, three rows in all, n 4, k 8: 2 * 3 * 12 + 2 * 2 * 32 = 200; the gradient 72 + 8 * 64 = 584.
  CHECK(grouped_bytes({{1, 2}, 4, 8, Pass::forward, ""}) == 200);
  CHECK(grouped_bytes({{1, 2}, 4, 8, Pass::wgrad, ""}) == 584);
}

TEST_CASE("a byte matrix has one row a rank, hot columns alike, in whole words") {
  const std::vector<std::int64_t> even = byte_matrix(4, 4096, 0, 1, 16);
  CHECK(even == std::vector<std::int64_t>(16, 1024));
  const std::vector<std::int64_t> skewed = byte_matrix(4, 100000, 1.2, 1, 16);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::int64_t sent = 0;
    for (std::size_t to = 0; to < 4; ++to) {
      CHECK(skewed[rank * 4 + to] % 16 == 0);
      CHECK(skewed[rank * 4 + to] == skewed[to]);
      sent += skewed[rank * 4 + to];
    }
    CHECK(sent == 100000);  // 6250 words of 16
  }
  CHECK(*std::max_element(skewed.begin(), skewed.end()) > 2 * *std::min_element(skewed.begin(), skewed.end()));
  CHECK(byte_matrix(2, 15, 0, 1, 16) == std::vector<std::int64_t>(4, 0));
}

TEST_CASE("a ladder of sizes ends at or below its last step, without running over") {
  CHECK(size_ladder(1, 8, 2) == std::vector<std::int64_t>{1, 2, 4, 8});
  CHECK(size_ladder(1, 9, 2) == std::vector<std::int64_t>{1, 2, 4, 8});
  CHECK(size_ladder(5, 4, 2).empty());
  CHECK(size_ladder(std::int64_t{1} << 62, INT64_MAX, 2).size() == 1);
}

TEST_CASE("words of an uneven exchange lie by sender, each from its place among what that one sent") {
  // Of 2 ranks: 0 sends 4 bytes to itself and 8 to rank 1; 1 sends none to 0 and 4 to itself.
  const std::vector<std::int64_t> matrix = {4, 8, 0, 4};
  const auto shown = [&](std::int64_t rank) {
    std::string text;
    for (const SentWord& word : words_received(matrix, 2, rank))
      text += std::to_string(word.rank) + ":" + std::to_string(word.place) + " ";
    return text;
  };
  CHECK(shown(0) == "0:0 ");
  CHECK(shown(1) == "0:1 0:2 1:0 ");
  for (const std::int64_t ranks : {1, 2, 8, 16}) {
    const std::vector<std::int64_t> bytes = uneven_matrix(ranks);
    REQUIRE(static_cast<std::int64_t>(bytes.size()) == ranks * ranks);
    CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::int64_t b) { return b % 16 == 0 && b >= 0 && b <= 192; }));
    std::size_t words = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) words += words_received(bytes, ranks, rank).size();
    CHECK(static_cast<std::int64_t>(words) == sum(bytes) / 4);
  }
  CHECK(uneven_matrix(2)[1] != uneven_matrix(2)[2]);
}

}  // namespace moeplan::device
