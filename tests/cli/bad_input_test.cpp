#include <doctest/doctest.h>

#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;

namespace {

struct Case {
  const char* name;
  std::string text;   // of the scenario file
  std::string place;  // part of the message: where
  std::string what;   // part of the message: what was wrong
};

std::string with(const std::string& from, const std::string& to) { return replaced(kSmall, from, to); }

std::string nested(int levels) {
  std::string text = "model: ";
  for (int i = 0; i < levels; ++i) text += "[";
  for (int i = 0; i < levels; ++i) text += "]";
  return text + "\n";
}

}  // namespace

TEST_CASE("bad scenario files end with 2 and say where and what") {
  const std::vector<Case> cases = {
      {"wrong type", with("global_batch_size: 16", "global_batch_size: many"), "s.yaml:4:", "many"},
      {"missing key", with("model: tiny-moe\n", ""), "s.yaml", "model"},
      {"unknown key", with("seq_length: 128", "seq_lenght: 128"), "s.yaml:4:", "did you mean 'seq_length'?"},
      {"duplicate key", kSmall + "model: tiny-moe\n", "s.yaml:7:1", "model"},
      {"out of range", with("micro_batch_size: 1", "micro_batch_size: 0"), "s.yaml:4:", "0"},
      {"unknown model", with("tiny-moe", "tiny-mo"), "s.yaml:1:", "did you mean 'tiny-moe'?"},
      {"impossible layout", with("pipeline_model_parallel_size: 2", "pipeline_model_parallel_size: 3"),
       "s.yaml:3:", "does not divide"},
      {"ep does not divide the experts", with("expert_model_parallel_size: 4", "expert_model_parallel_size: 3"),
       "s.yaml:3:", "8 experts"},
      {"ep x pp does not divide the GPUs", with("expert_model_parallel_size: 4", "expert_model_parallel_size: 8"),
       "s.yaml:3:", "= 16 does not divide the 8 GPUs"},
      {"no unit", with("routing:", "memory: { given_static_bytes: 5 }\nrouting:"), "s.yaml:6:", "a size such as"},
      {"empty file", "", "s.yaml", "empty"},
      {"invalid UTF-8", "model: \xFF\n", "s.yaml:1:", "UTF-8"},
      {"deep nesting", nested(5000), "s.yaml:1:", "deep"},
      {"alias loop", "model: &a [*a]\n", "s.yaml:1:", "alias"},
      {"no mapping", "- a\n", "s.yaml:1:", "mapping"},
      {"syntax", "model: [\n", "s.yaml:", ""},
  };
  const Folder folder;
  for (const Case& one : cases) {
    CAPTURE(one.name);
    const Result result = small("run", folder.write("s.yaml", one.text));
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_MESSAGE(result.err.starts_with("error: "), result.err);
    CHECK_MESSAGE(holds(result.err, one.place), result.err);
    CHECK_MESSAGE(holds(result.err, one.what), result.err);
  }
}

TEST_CASE("every fault of a file is told at once, each behind its own 'error: '") {
  const Folder folder;
  std::string text = with("micro_batch_size: 1", "micro_batch_size: 0");
  text = replaced(text, "seq_length: 128", "seq_lenght: 128");
  text = replaced(text, "chunks: 2", "chunks: none");
  const Result result = small("run", folder.write("s.yaml", text));
  CHECK(result.status == 2);
  std::size_t faults = 0;
  std::istringstream lines(result.err);
  for (std::string line; std::getline(lines, line);) faults += line.starts_with("error: ") ? 1 : 0;
  CHECK(faults >= 3);
}

TEST_CASE("a scenario that cannot be read ends with 2, for every command") {
  const Folder folder;
  for (const std::string& path : {folder.at("missing.yaml"), folder.at("")}) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"run", path},
                                                  {"sweep", path, "--vary", "ep=1"},
                                                  {"chunks", path},
                                                  {"compare", path}}) {
      const Result result = moeplan(words);
      CHECK_MESSAGE(result.status == 2, words.front());
      CHECK(holds(result.err, path));
    }
  }
}

TEST_CASE("a bad override names the option") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  CHECK(holds(small("run", scenario, {"--set", "ep=3"}).err, "--set ep=3"));
  CHECK(holds(small("run", scenario, {"--set", "ep"}).err, "expected KEY=VALUE"));
  CHECK(holds(small("run", scenario, {"--set", "seq_lenght=1"}).err, "did you mean 'seq_length'?"));
  CHECK(small("run", scenario, {"--data", folder.at("none")}).status == 2);
}

TEST_CASE("overrides that cannot be split and overrides of unknown keys are told at once, with the nearest name") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const std::string err = small("run", scenario, {"--set", "ep", "--set", "seq_lenght=1", "--set", "tp=1"}).err;
  CHECK(holds(err, "--set ep: expected KEY=VALUE"));
  CHECK(holds(err, "--set seq_lenght=1: unknown key 'seq_lenght'"));
  CHECK(holds(err, "did you mean 'seq_length'?"));
  CHECK_FALSE(holds(err, "unknown key 'ep'"));
  CHECK_FALSE(holds(err, "--set tp=1"));
  // A text without '=' is still the name of something: the nearest key is told beside.
  CHECK(holds(small("run", scenario, {"--set", "seq_lenght"}).err, "did you mean 'seq_length'?"));
}

TEST_CASE("where JSON cannot be written is seen before the work") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  for (const std::string& path : {folder.at("no/such/folder/x.json"), folder.at(""), scenario}) {
    const Result result = small("run", scenario, {"--json", path});
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(holds(result.err, "--json " + path));
  }
  CHECK(content_of(scenario) == kSmall);
  CHECK(small("run", scenario, {"--json", "/dev/null"}).status == 0);
}

TEST_CASE("an output that cannot be written names its own option, and '-' is for JSON alone") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall), gone = folder.at("no/x");
  const Result timeline = small("run", scenario, {"--memory-timeline", gone});
  CHECK(timeline.status == 2);
  CHECK(holds(timeline.err, "--memory-timeline " + gone + ": cannot write: the folder does not exist"));
  const Result dash = small("run", scenario, {"--memory-timeline", "-"});
  CHECK(dash.status == 2);
  CHECK(holds(dash.err, "--memory-timeline: expected a path, got '-'"));
}

TEST_CASE("an existing JSON file is kept when the input is bad, and replaced when it is good") {
  const Folder folder;
  const std::string old = folder.write("out.json", "old");
  CHECK(small("run", folder.write("bad.yaml", "model: x\n"), {"--json", old}).status == 2);
  CHECK(content_of(old) == "old");
  CHECK(small("run", folder.write("s.yaml", kSmall), {"--json", old}).status == 0);
  CHECK(content_of(old).starts_with("{\n  \"schema\": \"moeplan.run/1\""));
}

}  // namespace moeplan::cli
