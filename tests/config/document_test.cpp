#include "config/document.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support.h"

using namespace moeplan;
using config::Node;
using config::parse_yaml;

namespace {

std::string fault_of(const std::string& text) {
  return message_of([&] { parse_yaml(text, "a.yaml"); });
}

// `levels` mappings, one in the other: "a:\n a:\n  a: 1".
std::string nested_maps(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  text.pop_back();
  return text + " 1\n";
}

std::string place(const base::Where& where) {
  return where.file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ":" + where.key;
}

}  // namespace

TEST_CASE("kinds, texts and quotes of a document are kept") {
  const Node root =
      parse_yaml("a: 8\nb: '8'\nc: \"x\\ty\"\nd: |\n  text\ne: [1, two]\nf: { g: 1, h: 2 }\ni:\nj: ~\n", "a.yaml");
  CHECK(root.kind() == Node::Kind::map);
  CHECK(root.keys() == std::vector<std::string>{"a", "b", "c", "d", "e", "f", "i", "j"});
  CHECK(root.at("a").scalar() == "8");
  CHECK_FALSE(root.at("a").quoted());
  CHECK(root.at("b").scalar() == "8");
  CHECK(root.at("b").quoted());
  CHECK(root.at("c").scalar() == "x\ty");
  CHECK(root.at("d").scalar() == "text\n");
  CHECK(root.at("d").quoted());
  REQUIRE(root.at("e").items().size() == 2);
  CHECK(root.at("e").items()[1].scalar() == "two");
  CHECK(root.at("f").keys() == std::vector<std::string>{"g", "h"});
  CHECK(root.at("i").kind() == Node::Kind::null);
  CHECK(root.at("j").kind() == Node::Kind::null);
  CHECK(root.has("a"));
  CHECK_FALSE(root.has("z"));
}

TEST_CASE("places count from 1 and carry the dotted key path: a value without text stands at its key") {
  const Node root = parse_yaml("# head\nparallel:\n  tp:   8\n  list: [1, { x: 2 }]\n  none:\n", "a.yaml");
  CHECK(place(root.where()) == "a.yaml:2:1:");
  CHECK(place(root.key_where("parallel")) == "a.yaml:2:1:parallel");
  const Node parallel = root.at("parallel");
  CHECK(place(parallel.where()) == "a.yaml:3:3:parallel");
  CHECK(place(parallel.key_where("tp")) == "a.yaml:3:3:parallel.tp");
  CHECK(place(parallel.at("tp").where()) == "a.yaml:3:9:parallel.tp");
  CHECK(place(parallel.at("list").items()[0].where()) == "a.yaml:4:10:parallel.list[0]");
  CHECK(place(parallel.at("list").items()[1].at("x").where()) == "a.yaml:4:18:parallel.list[1].x");
  CHECK(place(parallel.at("none").where()) == "a.yaml:5:3:parallel.none");
}

TEST_CASE("a description names the kind, and shows a scalar on one line, cut between characters") {
  const Node root = parse_yaml("a: abc\nb: [1]\nc: { d: 1 }\ne:\nf: \"x\\ny\"\n", "a.yaml");
  CHECK(root.at("a").describe() == "'abc'");
  CHECK(root.at("b").describe() == "a list");
  CHECK(root.at("c").describe() == "a mapping");
  CHECK(root.at("e").describe() == "nothing");
  CHECK(root.at("f").describe() == "'x?y'");
  CHECK(parse_yaml("a: " + std::string(60, 'x'), "a").at("a").describe() == "'" + std::string(60, 'x') + "'");
  CHECK(parse_yaml("a: " + std::string(61, 'x'), "a").at("a").describe() == "'" + std::string(60, 'x') + "...'");
  // 59 letters, then a character of two bytes: it is shown whole.
  const std::string wide = std::string(59, 'x') + "\xC3\xA9";
  CHECK(parse_yaml("a: " + wide + "y", "a").at("a").describe() == "'" + wide + "...'");
}

TEST_CASE("aliases are expanded under the key path of their use") {
  const Node root = parse_yaml("a: &x { n: 1 }\nb: *x\n", "a.yaml");
  CHECK(root.at("b").at("n").scalar() == "1");
  CHECK(place(root.at("b").at("n").where()) == "a.yaml:1:12:b.n");
}

TEST_CASE("JSON is read as it is, with tabs") {
  const Node root = parse_yaml(
      "{\n\t\"experts\":128,\n\t\"names\": [\"a\", \"b\"],\n\t\"eps\": 1e-06, \"none\": null\n}\n", "c.json");
  CHECK(root.at("experts").scalar() == "128");
  CHECK_FALSE(root.at("experts").quoted());
  CHECK(root.at("names").items()[1].quoted());
  CHECK(root.at("eps").scalar() == "1e-06");
  CHECK(root.at("none").kind() == Node::Kind::null);
}

TEST_CASE("the root must be one mapping") {
  CHECK(fault_of("") == "a.yaml:1:1: expected a mapping, the document is empty");
  CHECK(fault_of("# only a comment\n") == "a.yaml:1:1: expected a mapping, the document is empty");
  CHECK(fault_of("[1, 2]") == "a.yaml:1:1: expected a mapping, got a list");
  CHECK(fault_of("\n  text") == "a.yaml:2:3: expected a mapping, got 'text'");
  CHECK(fault_of("a: 1\n---\nb: 2\n") == "a.yaml:2:1: expected one document, got several");
  CHECK(fault_of("a: 1\n...\n") == "no error");
}

TEST_CASE("broken YAML and broken text are refused with their place") {
  CHECK(fault_of("a: 1\nb: c: d\n") == "a.yaml:2:5: not valid YAML: illegal map value");
  CHECK(fault_of("a: *none\n").find("a.yaml:1:4: not valid YAML: ") == 0);
  CHECK(fault_of("a: [1, 2\n").find("not valid YAML: ") != std::string::npos);
  // A syntax error is told alone: an unclosed '[' looks like a list used as a key until the end is seen.
  CHECK(fault_of("[1\n") == "a.yaml:2:1: not valid YAML: end of sequence flow not found");
  CHECK(fault_of("a: 1\nb: \xFF\n") == "a.yaml:2:4: not valid UTF-8 text");
  CHECK(fault_of(std::string("a: \0", 4)) == "a.yaml:1:4: a NUL byte, which no text holds");
  CHECK(fault_of("a: \"x\\0y\"\n") == "a.yaml:1:4: a: a NUL byte, which no text holds");
}

TEST_CASE("a token that begins no value is refused, where yaml-cpp alone would never end") {
  CHECK(fault_of(", a: 1\n") == "a.yaml:1:1: not valid YAML: this begins no value");
  CHECK(fault_of("[a],\n") == "a.yaml:1:4: not valid YAML: this begins no value");
}

TEST_CASE("keys that are aliases, lists, mappings or nothing are refused, and the rest is still read") {
  CHECK(fault_of("a: &x k\n*x : 1\na: 2\n") ==
        "a.yaml:2:1: expected a key that is a plain text\n"
        "a.yaml:3:1: a: the key 'a' is given twice\n  see also a.yaml:1:1: a");
  CHECK(fault_of("{ {a: 1}: 2, [b]: { c: 3 }, d: 4, d: 5 }\n") ==
        "a.yaml:1:3: expected a key that is a plain text\n"
        "a.yaml:1:14: expected a key that is a plain text\n"
        "a.yaml:1:35: d: the key 'd' is given twice\n  see also a.yaml:1:29: d");
}

TEST_CASE("all faults of a document are reported in one go") {
  CHECK(fault_of("a: 1\nb: !int 2\na: 3\n<<: { c: 1 }\n? [1]\n: 4\n~: 5\nd: !!seq []\n") ==
        "a.yaml:2:4: b: expected a value without a YAML tag, got the tag '!int'\n"
        "a.yaml:3:1: a: the key 'a' is given twice\n"
        "  see also a.yaml:1:1: a\n"
        "a.yaml:4:1: <<: merge keys ('<<') are not supported\n"
        "  hint: write the keys out\n"
        "a.yaml:5:3: expected a key that is a plain text\n"
        "a.yaml:7:1: expected a key that is a plain text\n"
        "a.yaml:8:4: d: expected a value without a YAML tag, got the tag 'tag:yaml.org,2002:seq'");
}

TEST_CASE("duplicate keys are found at every level, and equal keys of different mappings are none") {
  CHECK(fault_of("s:\n  - { a: 1, a: 2 }\n") ==
        "a.yaml:2:13: s[0].a: the key 'a' is given twice\n  see also a.yaml:2:7: s[0].a");
  CHECK(fault_of("x: { a: 1 }\ny: { a: 1 }\n") == "no error");
  CHECK(fault_of("a: 1\n'a': 2\n").find("a.yaml:2:1: a: the key 'a' is given twice") == 0);
}

TEST_CASE("32 levels are read, 33 are refused, and very many do no harm") {
  CHECK(fault_of(nested_maps(32)) == "no error");
  CHECK(fault_of(nested_maps(33)).find("nested deeper than 32 levels") != std::string::npos);
  // The root mapping and 31 lists make 32.
  CHECK(fault_of("a: " + std::string(31, '[') + std::string(31, ']')) == "no error");
  CHECK(fault_of("a: " + std::string(32, '[') + std::string(32, ']')).find("a.yaml:1:35: a[0]") == 0);
  for (const std::string step : {"[", "{", "- ", "? ", "[a: ", "{a: ", "[\n"}) {
    std::string text;
    for (int i = 0; i < 50'000; ++i) text += step;
    CAPTURE(step);
    const std::string fault = fault_of(text);
    CHECK((fault.find("nested deeper than 32 levels") != std::string::npos ||
           fault.find("not valid YAML: ") != std::string::npos));
  }
}

TEST_CASE("an alias inside its own value is refused") {
  CHECK(fault_of("a: &x [1, *x]\n") == "a.yaml:1:11: a[1]: an alias stands inside the value that it repeats");
  CHECK(fault_of("a: &x { b: { c: *x } }\n") == "a.yaml:1:17: a.b.c: an alias stands inside the value that it repeats");
  CHECK(fault_of("&x { b: *x }\n").find("an alias stands inside the value that it repeats") != std::string::npos);
}

TEST_CASE("values are counted after aliases are expanded: 100,000 are read, one more is refused") {
  // Root, key a with its list, and n items: n + 2 nodes. 99,998 items make 100,000.
  const auto flat = [](int items) {
    std::string text = "a: [";
    for (int i = 0; i < items; ++i) text += "1,";
    return text + "]\n";
  };
  CHECK(fault_of(flat(99'998)) == "no error");
  CHECK(fault_of(flat(99'999)).find("more than 100000 values (aliases expanded)") != std::string::npos);
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += "*a" + std::to_string(i - 1) + ", ";
    bomb += "]\n";
  }
  CHECK(fault_of(bomb).find("more than 100000 values (aliases expanded)") != std::string::npos);
}

TEST_CASE("a file is loaded under its own name, and a missing one is refused") {
  const std::string path = std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/config/scenario.yaml";
  const Node root = config::load_yaml(path);
  CHECK(root.at("cluster").at("gpus").scalar() == "16");
  CHECK(root.at("cluster").at("gpus").where().file == path);
  CHECK(message_of([] { config::load_yaml("no/such.yaml"); }) ==
        "no/such.yaml: cannot read: No such file or directory");
}
