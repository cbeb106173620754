#include <doctest/doctest.h>

#include <filesystem>

#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;

TEST_CASE("import megatron prints a scenario that runs, and warns with file and line") {
  const Folder folder;
  const Result result = moeplan({"import", "megatron", kData + "/megatron-launch.sh"});
  CHECK(result.status == 0);
  CHECK(holds(result.err, "warning: " + kData + "/megatron-launch.sh:40: '--strange-option 4' was not understood\n"));
  CHECK(holds(result.out, "model: qwen3-30b-a3b\n"));
  const Result run = moeplan({"run", folder.write("s.yaml", result.out)});
  CHECK(run.err == "");
  CHECK(run.status <= 1);
  CHECK(holds(run.out, "qwen3-30b-a3b on 32 x h100-sxm"));
}

TEST_CASE("import megatron writes the scenario and, beside it, a model file that the scenario finds") {
  const Folder folder;
  const std::string list = kData + "/megatron-list.txt";
  CHECK(moeplan({"import", "megatron", list, "--gpus", "8", "-o", folder.at("s.yaml")}).out.empty());
  CHECK(content_of(folder.at("s.model.yaml")).starts_with("name: \"megatron-list\"\n"));
  CHECK(moeplan({"run", folder.at("s.yaml")}).err == "");
  std::filesystem::create_directory(folder.at("m"));
  const Result named = moeplan({"import", "megatron", list, "--gpus", "8", "-o", folder.at("t.yaml"), "--model-out",
                                folder.at("m/x.yaml"), "--name", "x", "--hardware", "h800-sxm"});
  CHECK(named.status == 0);
  CHECK(holds(content_of(folder.at("t.yaml")), "model: ./m/x.yaml\n"));
  const Result run = moeplan({"run", folder.at("t.yaml")});
  CHECK(run.err == "");
  CHECK(holds(run.out, "x on 8 x h800-sxm"));
  CHECK(holds(moeplan({"import", "megatron", list, "--gpus", "8"}).out, "\n# --- models/megatron-list.yaml\n# name: "));
}

TEST_CASE("import megatron refuses bad input and bad options with status 2") {
  const Folder folder;
  const std::string list = kData + "/megatron-list.txt";
  const auto refused = [](const std::vector<std::string>& more, const std::string& part) {
    std::vector<std::string> words = {"import", "megatron"};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = moeplan(words);
    CAPTURE(result.err);
    return result.status == 2 && result.out.empty() && holds(result.err, part);
  };
  CHECK(refused({list}, "add --gpus N"));
  CHECK(refused({folder.write("empty.sh", "")}, "empty.sh"));
  CHECK(refused({folder.write("binary.sh", std::string("--a\0\xff", 5))}, "binary.sh"));
  CHECK(refused({folder.write("quote.sh", "--num-layers 4\n--save 'x\n")}, "quote.sh:2: a quote (') is not closed"));
  CHECK(refused({list, "--gpus", "0"}, "--gpus"));
  CHECK(refused({list, "--gpus", "8", "--hardware", "h100-sxn"}, "h100-sxm"));
  CHECK(refused({list, "--gpus", "8", "--model-out", folder.at("a.yaml"), "-o", folder.at("a.yaml")},
                "names the file of -o"));
  const std::string copy = folder.write("copy.txt", content_of(list));
  CHECK(refused({copy, "--gpus", "8", "-o", copy}, "would replace the input"));
  CHECK(content_of(copy) == content_of(list));
}

}  // namespace moeplan::cli
