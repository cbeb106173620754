#include <doctest/doctest.h>

#include "routing/formats.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

std::string jsonl_fault(const std::string& text) {
  return error_of([&] { parse_counts_jsonl(text, "c.jsonl"); });
}

}  // namespace

TEST_CASE("a line of JSON is a row of counts, its keys in any order") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("c.jsonl",
                   "{\"step\": 5, \"layer\": 1, \"microbatch\": 0, \"source\": 3, \"counts\": [4, 2, 2]}\n"
                   "{\"counts\": [3, 3.0, 2], \"source\": 3, \"microbatch\": 0, \"layer\": 2, \"step\": 5}");
  const CountTrace trace = std::get<CountTrace>(read_trace(path));
  CHECK(trace.name == path);
  CHECK(trace.experts == 3);
  CHECK(trace.counts.part(0, trace.counts.size()) == std::vector<std::int64_t>{4, 2, 2, 3, 3, 2});
  REQUIRE(trace.rows.size() == 2);
  CHECK(trace.rows[0].step == 5);
  CHECK(trace.rows[0].microbatch == 0);
  CHECK(trace.rows[1].layer == 2);
  CHECK(trace.rows[1].source == 3);
  CHECK(trace.rows[1].line == 2);
}

TEST_CASE("rows without microbatch and source stand for all of them") {
  const CountTrace trace = parse_counts_jsonl("{\"step\":0,\"layer\":1,\"counts\":[1]}\r\n", "c.jsonl");
  CHECK(trace.rows[0].microbatch == -1);
  CHECK(trace.rows[0].source == -1);
}

TEST_CASE("the same counts as CSV and as JSON lines give the same loads") {
  const CountTrace csv = parse_counts_csv("step,layer,e0,e1,e2\n0,1,4,2,2\n0,2,3,3,2\n", "c.csv");
  const CountTrace json = parse_counts_jsonl(
      "{\"step\":0,\"layer\":1,\"counts\":[4,2,2]}\n{\"step\":0,\"layer\":2,\"counts\":[3,3,2]}\n", "c.jsonl");
  const StepShape shape{8, 1, 2, 2, 2, 3, 2};
  const auto a = make_count_loads(std::make_shared<CountTrace>(csv), shape);
  const auto b = make_count_loads(std::make_shared<CountTrace>(json), shape);
  for (const std::int64_t layer : {0, 1}) {
    CHECK(counts_of(*a, {0, 1, 1, 0, 8}, layer) == counts_of(*b, {0, 1, 1, 0, 8}, layer));
  }
}

TEST_CASE("damaged lines are refused with their numbers, several at once") {
  const std::string good = "{\"step\":0,\"layer\":1,\"counts\":[4,2]}\n";
  CHECK(jsonl_fault(good) == "no error");
  CHECK(contains(jsonl_fault(good + "{\"step\":0,\"layer\":2,\"counts\":[4,2}\n"), "c.jsonl:2:34: not valid JSON"));
  CHECK(contains(jsonl_fault(good + "\n" + good), "c.jsonl:2: an empty line"));
  CHECK(contains(jsonl_fault(good + "[1]\n"), "c.jsonl:2: expected an object, got a list"));
  CHECK(contains(jsonl_fault(good + "{\"step\":0,\"layer\":2,\"counts\":[4]}\n"),
                 "1 counts, but the rows before have 2"));
  CHECK(contains(jsonl_fault(good + "{\"step\":0,\"layer\":2,\"counts\":[]}\n"), "got an empty one"));
  CHECK(contains(jsonl_fault(good + "{\"step\":0,\"layer\":2,\"counts\":[0,0]}\n"), "all counts of the row are 0"));
  CHECK(contains(jsonl_fault(good + "{\"step\":0,\"layer\":2,\"counts\":[1.5,1]}\n"), "expected whole numbers"));
  CHECK(contains(jsonl_fault(good + "{\"step\":-1,\"layer\":2,\"counts\":[1,1]}\n"),
                 "c.jsonl:2: step: expected a whole"));
  CHECK(contains(jsonl_fault(good + "{\"step\":0,\"layer\":2,\"micro_batch\":0,\"counts\":[1,1]}\n"),
                 "did you mean 'microbatch'?"));
  CHECK(contains(jsonl_fault(good + "{\"step\":0,\"layer\":2,\"source\":0,\"counts\":[1,1]}\n"),
                 "c.jsonl:2: has a key 'source', unlike the rows before"));
  CHECK(contains(jsonl_fault(good + "{\"step\":0,\"step\":0,\"layer\":2,\"counts\":[1,1]}\n"), "stands twice"));
  CHECK(contains(jsonl_fault(good + good), "a second row for step 0, layer 1"));
  const std::string two = jsonl_fault(good + "x\n{\"layer\":2,\"counts\":[1,1]}\n");
  CHECK(contains(two, "c.jsonl:2:"));
  CHECK(contains(two, "c.jsonl:3: missing key 'step'"));
}

TEST_CASE("counts may sum to 10^15 and not more") {
  const auto with = [](const std::string& counts) {
    return jsonl_fault("{\"step\":0,\"layer\":1,\"counts\":[" + counts + "]}\n");
  };
  CHECK(with("1000000000000000, 0") == "no error");
  CHECK(contains(with("1000000000000000, 1"), "sum to more than 10^15"));
  CHECK(contains(with("1000000000000001, 0"), "expected whole numbers from 0 to 10^15"));
  CHECK(contains(with("18446744073709551615, 0"), "expected whole numbers from 0 to 10^15"));
}
