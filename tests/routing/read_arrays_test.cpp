#include <doctest/doctest.h>

#include <fstream>

#include "base/file.h"
#include "routing/array_trace.h"
#include "routing/formats.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

const std::string kArrays = std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/routing/arrays/";
// tests/data/routing/README.md: the choices of layer 0 and layer 1 of all fixtures.
const std::vector<std::uint16_t> kLayer0 = {0, 1, 2, 0, 3, 5, 1, 2, 4, 0};
const std::vector<std::uint16_t> kLayer1 = {5, 2, 1, 4, 0, 1, 2, 3, 5, 0};

template <typename T>
std::string npy(const std::string& descr, const std::string& shape, const std::vector<T>& values) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string bytes = "\x93NUMPY";
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

Trace parse(const std::string& bytes, const std::string& part = {}) { return parse_npy_trace(bytes, {"a.npy", part}); }
std::string array_fault(const std::string& bytes, const std::string& part = {}) {
  return error_of([&] { parse(bytes, part); });
}
std::string fault_of_file(const std::string& path) {
  return error_of([&] { read_trace(path); });
}

using I32 = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("an array of three dimensions that NumPy wrote is read as choices, whatever its integer type") {
  for (const char* name : {"choices_i2.npy", "choices_u1.npy", "version2.npy"}) {
    CAPTURE(name);
    const TokenTrace trace = std::get<TokenTrace>(read_trace(kArrays + name));
    CHECK(trace.top_k == 2);
    CHECK(trace.experts == 6);
    CHECK_FALSE(trace.experts_stated);
    CHECK(trace.layer_ids == std::vector<int>{0, 1});
    CHECK(trace.line_tokens == std::vector<std::int64_t>{5});
    CHECK(trace.experts_of == std::vector<std::vector<std::uint16_t>>{kLayer0, kLayer1});
    CHECK(trace.weights_of.empty());
  }
}

TEST_CASE("arrays of a .npz name layers, weights, lines and experts") {
  const TokenTrace trace = std::get<TokenTrace>(read_trace(kArrays + "choices.npz"));
  CHECK(trace.layer_ids == std::vector<int>{3, 4});
  CHECK(trace.line_tokens == std::vector<std::int64_t>{2, 3});
  CHECK(trace.experts == 6);
  CHECK(trace.experts_stated);
  CHECK(trace.experts_of[1] == kLayer1);
  REQUIRE(trace.weights_of.size() == 2);  // half precision holds these exactly
  CHECK(trace.weights_of[0][0] == 0.5f);
  CHECK(trace.weights_of[1][1] == 0.125f);
}

TEST_CASE("a token without a route is left out of all layers and counted") {
  const TokenTrace trace = std::get<TokenTrace>(read_trace(kArrays + "missing.npz"));
  CHECK(trace.left_out == 1);
  CHECK(trace.line_tokens == std::vector<std::int64_t>{1, 3});  // the second token was in the first line
  CHECK(trace.experts_of[0] == std::vector<std::uint16_t>{0, 1, 3, 5, 1, 2, 4, 0});
  const auto loads = make_token_loads(std::make_shared<TokenTrace>(trace), {4, 1, 1, 1, 2, 6, 2}, Resample::lines, 1);
  CHECK(contains(loads->describe().source, "1 token without a route left out"));
  // Unless the file says what stands for "no route", an id below 0 is a fault.
  CHECK(contains(array_fault(npy<std::int32_t>("<i4", "(2, 1, 2)", {0, 1, -1, -1})),
                 "a.npy: routed_experts[1, 0]: expected ids from 0 to 65534, got -1"));
  // 2^64 - 1, as someone's "no route" in unsigned integers.
  CHECK(contains(array_fault(npy<std::uint64_t>("<u8", "(1, 1, 1)", {~std::uint64_t{0}})),
                 "a.npy: routed_experts[0, 0]: expected ids from 0 to 65534, got 18446744073709551615"));
}

TEST_CASE("counts have axes for steps, microbatches and sources by the number of dimensions") {
  const CountTrace four = std::get<CountTrace>(read_trace(kArrays + "counts_f4.npy"));
  CHECK(four.experts == 4);
  REQUIRE(four.rows.size() == 12);
  // [step 1, microbatch 0, layer 2]: (1 * 2 + 0) * 3 + 2 = row 8, values 33 to 36.
  CHECK(four.rows[8].step == 1);
  CHECK(four.rows[8].microbatch == 0);
  CHECK(four.rows[8].layer == 2);
  CHECK(four.rows[8].source == -1);
  CHECK(four.row_counts(8)[0] == 33);
  const CountTrace named = std::get<CountTrace>(read_trace(kArrays + "counts.npz"));
  CHECK(trace_layers(named) == std::vector<std::int64_t>{1, 4, 9});
  CHECK(named.rows[0].microbatch == -1);
  const CountTrace three = std::get<CountTrace>(parse(npy<std::int32_t>("<i4", "(2, 1, 2)", {1, 2, 2, 2}), "counts"));
  CHECK(three.rows[1].step == 1);
  const CountTrace five = std::get<CountTrace>(parse(npy<std::int32_t>("<i4", "(1, 1, 2, 1, 2)", {1, 2, 2, 2})));
  CHECK(five.rows[1].source == 1);
  CHECK(
      contains(array_fault(npy<std::int32_t>("<i4", "(2,)", {1, 2})), "counts: expected the shape [layers, experts]"));
}

TEST_CASE("a compressed array and a part after the path are read") {
  const TokenTrace two = std::get<TokenTrace>(read_trace(kArrays + "two.npz#routed_experts"));
  CHECK(two.name == kArrays + "two.npz#routed_experts");
  CHECK(std::holds_alternative<CountTrace>(read_trace(kArrays + "two.npz#counts")));
  CHECK(contains(fault_of_file(kArrays + "two.npz"), "holds several traces: counts, routed_experts"));
  CHECK(contains(fault_of_file(kArrays + "two.npz#count"), "did you mean 'counts'?"));
  CHECK(contains(fault_of_file(kArrays + "choices_i2.npy#x"), "expected #routed_experts or #counts"));
  CHECK(contains(fault_of_file(kLawTrace + "#x"), "this format has no parts, got '#x'"));
  // A name that holds the mark is a name.
  const TemporaryFolder folder;
  const std::string path = folder.write("a#counts.npy", npy<std::int32_t>("<i4", "(1, 2)", {1, 2}));
  CHECK(std::get<CountTrace>(read_trace(path)).name == path);
}

TEST_CASE("layers and steps of zeros alone are dense or idle, and left out") {
  // Three layers of choices, the first dense: a recorder of all layers fills it with zeros.
  const TokenTrace choices = std::get<TokenTrace>(parse(npy<std::int32_t>("<i4", "(1, 3, 2)", {0, 0, 1, 2, 2, 0})));
  CHECK(choices.layer_ids == std::vector<int>{1, 2});
  // With one expert a token, zeros may be choices.
  CHECK(std::get<TokenTrace>(parse(npy<std::int32_t>("<i4", "(1, 2, 1)", {0, 1}))).layer_ids == std::vector<int>{0, 1});
  // [steps 3, layers 2, experts 2]: step 1 did not run, layer 0 is dense.
  const std::string bytes = npy<std::int32_t>("<i4", "(3, 2, 2)", {0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4});
  const CountTrace counts = std::get<CountTrace>(parse(bytes, "counts"));
  REQUIRE(counts.rows.size() == 2);
  CHECK(counts.rows[1].step == 2);
  CHECK(counts.rows[1].layer == 1);
  CHECK(contains(array_fault(npy<std::int32_t>("<i4", "(2, 2, 2)", {1, 0, 1, 2, 0, 0, 3, 4}), "counts"),
                 "counts[1, 0]: all counts of the row are 0"));
  CHECK(contains(array_fault(npy<std::int32_t>("<i4", "(1, 2)", {0, 0})), "all counts are 0"));
  CHECK(contains(array_fault(npy<std::int32_t>("<i4", "(1, 1, 2)", {0, 0})), "all ids are 0: no layer routes"));
}

TEST_CASE("choices that cannot be are refused with their place, and the other reading is named") {
  const std::string repeated = array_fault(npy<std::int32_t>("<i4", "(2, 1, 2)", {0, 1, 3, 3}));
  CHECK(contains(repeated, "a.npy: routed_experts[1, 0]: the token names expert 3 twice"));
  CHECK(contains(repeated, "'#counts'"));
  CHECK(contains(array_fault(npy<std::int32_t>("<i4", "(1, 1, 2)", {0, 65535})), "ids from 0 to 65534, got 65535"));
  CHECK(array_fault(npy<std::int32_t>("<i4", "(1, 1, 2)", {0, 65534})) == "no error");
  I32 wide(65);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<std::int32_t>(i);
  CHECK(contains(array_fault(npy("<i4", "(1, 1, 65)", wide)), "with k at most 64"));
  CHECK(array_fault(npy("<i4", "(1, 1, 64)", I32(wide.begin(), wide.end() - 1))) == "no error");
  CHECK(contains(array_fault(npy<float>("<f4", "(1, 1, 2)", {0, 1}), "routed_experts"), "expected integers"));
}

TEST_CASE("counts are whole numbers >= 0, also as floats") {
  CHECK(contains(array_fault(npy<float>("<f4", "(1, 2)", {1.5f, 1})), "counts[0]: the count of expert 0 is no whole"));
  CHECK(contains(array_fault(npy<std::int32_t>("<i4", "(1, 2)", {1, -1})), "the count of expert 1 is negative: -1"));
  CHECK(contains(array_fault(npy<double>("<f8", "(1, 2)", {1e15, 1})), "sum to more than 10^15"));
  CHECK(array_fault(npy<double>("<f8", "(1, 2)", {1e15, 0})) == "no error");
  CHECK(
      contains(array_fault(npy<std::uint64_t>("<u8", "(1, 1)", {~std::uint64_t{0}})), "no whole number that is held"));
  // Half precision: 0x3C00 is 1, 0x6400 is 1024, 0x7C00 is infinite.
  const CountTrace half = std::get<CountTrace>(parse(npy<std::uint16_t>("<f2", "(1, 2)", {0x3C00, 0x6400})));
  CHECK(half.row_counts(0) == std::vector<std::int64_t>{1, 1024});
  CHECK(contains(array_fault(npy<std::uint16_t>("<f2", "(1, 1)", {0x7C00})), "no whole number that is held"));
}

TEST_CASE("arrays of other kinds are refused by name") {
  CHECK(contains(fault_of_file(kArrays + "fortran.npy"), "Fortran order"));
  CHECK(contains(fault_of_file(kArrays + "big_endian.npy"), "type '>i4': big-endian values are not read"));
  CHECK(contains(fault_of_file(kArrays + "objects.npy"), "pickled objects are not read"));
  CHECK(contains(array_fault(npy<std::uint8_t>("|b1", "(1, 2)", {1, 1})), "type '|b1': not a type of numbers"));
  CHECK(contains(array_fault("PK"), "not an array of NumPy"));
  CHECK(contains(array_fault(npy<std::int32_t>("<i4", "(1, 0)", {})), "the array is empty: its shape is [1, 0]"));
}

TEST_CASE("an array that was cut or has bytes to spare is refused at every length") {
  const std::string whole = npy<std::int32_t>("<i4", "(1, 2)", {1, 2});
  REQUIRE(array_fault(whole) == "no error");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_MESSAGE(contains(array_fault(whole.substr(0, size)), "a.npy"), size);
  }
  CHECK(contains(array_fault(whole + "x"), "are not the 9 bytes that follow the header"));
  // The product of the extents is not trusted.
  CHECK(contains(array_fault(npy<std::int32_t>("<i4", "(4611686018427387904, 4)", {})), "bytes that follow"));
}

TEST_CASE("headers are read as Python writes them and nothing else") {
  const std::string good = npy<std::int32_t>("<i4", "(1, 2)", {1, 2});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    text[8] = static_cast<char>(text[8] + static_cast<int>(to.size()) - static_cast<int>(from.size()));
    return array_fault(text);
  };
  CHECK(with("'descr'", "\"descr\"") == "no error");
  CHECK(with(", }", "}") == "no error");
  CHECK(contains(with("'descr'", "'desc'"), "the header is not the one of an array"));
  CHECK(contains(with("'<i4'", "[('a', '<i4')]"), "named fields"));
  CHECK(contains(with("False", "false"), "the header is not the one of an array"));
  CHECK(contains(with("(1, 2)", "(1, -2)"), "the header is not the one of an array"));
  CHECK(contains(with(", }", ", } x"), "the header is not the one of an array"));
  CHECK(contains(with("(1, 2)", "(1, 1, 1, 1, 1, 1, 1, 1, 2)"), "more than 8 dimensions"));
}

TEST_CASE("a broken archive is refused at every length, and one without a trace names what it has") {
  const std::string whole = moeplan::base::read_file(kArrays + "counts.npz");
  const auto fault = [](const std::string& bytes) { return error_of([&] { parse_npz_trace(bytes, {"a.npz", {}}); }); };
  CHECK(fault(whole) == "no error");
  for (std::size_t size = 0; size < whole.size(); size += 7)
    CHECK_MESSAGE(contains(fault(whole.substr(0, size)), "a.npz"), size);
  // One bit of the stored counts: the checksum of the member sees it. The values lie behind the header of 128 bytes.
  std::string flipped = whole;
  flipped[flipped.find("NUMPY") + 130] ^= 1;
  CHECK(contains(fault(flipped), "a.npz: cannot read 'expert_counts.npy'"));
  std::string renamed = whole;
  for (std::size_t at = 0; (at = renamed.find("expert_counts", at)) != std::string::npos;) renamed[at] = 'x';
  CHECK(contains(fault(renamed),
                 "expected an array routed_experts, counts or expert_counts, found xxpert_counts, layer_ids"));
}
