#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "config/document.h"
#include "support.h"

using namespace moeplan;
using config::Node;
using config::with_override;

namespace {

Node base_document() {
  return config::parse_yaml("model: m\nparallel: { tp: 2, ep: 4 }\nlist: [1, 2]\nnone:\n", "a.yaml");
}

std::string fault_of(const std::string& path, const std::string& value) {
  return message_of([&] { with_override(base_document(), path, value, "--set " + path + "=" + value); });
}

}  // namespace

TEST_CASE("an override replaces one value and leaves the rest, and the first document, as they were") {
  const Node before = base_document();
  const Node after = with_override(before, "parallel.tp", "8", "--set parallel.tp=8");
  CHECK(after.at("parallel").at("tp").scalar() == "8");
  CHECK(after.at("parallel").at("ep").scalar() == "4");
  CHECK(after.at("model").scalar() == "m");
  CHECK(after.keys() == before.keys());
  CHECK(after.at("parallel").keys() == std::vector<std::string>{"tp", "ep"});
  CHECK(before.at("parallel").at("tp").scalar() == "2");
}

TEST_CASE("places of the new value name the option, others stay in the file") {
  const Node after = with_override(base_document(), "parallel.tp", "[8]", "--set parallel.tp=[8]");
  const base::Where where = after.at("parallel").at("tp").items()[0].where();
  CHECK(where.file == "--set parallel.tp=[8]");
  CHECK(where.line == 0);
  CHECK(where.column == 0);
  CHECK(where.key == "parallel.tp[0]");
  CHECK(after.at("parallel").key_where("tp").file == "--set parallel.tp=[8]");
  CHECK(after.at("parallel").where().file == "a.yaml");
  CHECK(after.at("parallel").at("ep").where().line == 2);
}

TEST_CASE("values are YAML: lists, mappings, quoted texts and nothing") {
  const Node after = with_override(base_document(), "moe.policies.memfine", "{ rule: fixed, chunks: 4 }", "--set");
  CHECK(after.at("moe").at("policies").at("memfine").at("chunks").scalar() == "4");
  CHECK(after.at("moe").at("policies").at("memfine").at("chunks").where().key == "moe.policies.memfine.chunks");
  CHECK(with_override(base_document(), "model", "'8'", "--set").at("model").quoted());
  CHECK(with_override(base_document(), "model", "", "--set").at("model").kind() == Node::Kind::null);
  CHECK(with_override(base_document(), "none.a", "1", "--set").at("none").at("a").scalar() == "1");
  CHECK(with_override(base_document(), "parallel", "3", "--set").at("parallel").scalar() == "3");
}

TEST_CASE("overrides build on each other, the last one wins") {
  const Node once = with_override(base_document(), "x.y", "1", "--set x.y=1");
  const Node twice = with_override(with_override(once, "x.z", "2", "--set x.z=2"), "x.y", "3", "--set x.y=3");
  CHECK(twice.at("x").keys() == std::vector<std::string>{"y", "z"});
  CHECK(twice.at("x").at("y").scalar() == "3");
}

TEST_CASE("a path through a scalar or a list is refused with both places") {
  CHECK(fault_of("model.x", "1") ==
        "--set model.x=1: model: expected a mapping that can hold 'x', found 'm'\n  see also a.yaml:1:8: model");
  CHECK(fault_of("list.0", "1") ==
        "--set list.0=1: list: expected a mapping that can hold '0', found a list\n  hint: give the whole list\n"
        "  see also a.yaml:3:7: list");
}

TEST_CASE("broken values and paths are refused by the option's text, without a line") {
  CHECK(fault_of("parallel.tp", "[1").find("--set parallel.tp=[1: parallel.tp: not valid YAML: ") == 0);
  CHECK(fault_of("model", "{ a: 1, a: 2 }") ==
        "--set model={ a: 1, a: 2 }: model.a: the key 'a' is given twice\n  see also --set model={ a: 1, a: 2 }: "
        "model.a");
  CHECK(fault_of("model", "a\n---\nb").find(": model: expected one document, got several") != std::string::npos);
  CHECK(fault_of("model", "\xFF").find(": model: not valid UTF-8 text") != std::string::npos);
  for (const char* path : {"", ".", "a.", ".a", "a..b"}) {
    CHECK(fault_of(path, "1").find("expected a key path such as 'section.key', got '" + std::string(path) + "'") !=
          std::string::npos);
  }
}

TEST_CASE("the limit on nesting holds for path and value together") {
  // The path's mappings are levels too: 31 parts leave room for one list, 32 parts for a scalar only.
  const auto path = [](int parts) {
    std::string text = "k";
    for (int i = 1; i < parts; ++i) text += ".k";
    return text;
  };
  CHECK(fault_of(path(31), "[1]") == "no error");
  CHECK(fault_of(path(32), "1") == "no error");
  CHECK(fault_of(path(32), "[1]").find("nested deeper than 32 levels") != std::string::npos);
  CHECK(fault_of(path(33), "1").find("nested deeper than 32 levels") != std::string::npos);
}
