#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;

namespace {

const std::string kMatrix = kRoot + "/tests/data/network/m64_zipf1.csv";

Result collective(std::vector<std::string> words) {
  words.insert(words.begin(), "collective");
  return moeplan(words);
}

std::vector<std::string> plain(std::vector<std::string> words, const std::string& oversubscription = "1") {
  for (const char* word : {"--gpus-per-node", "8", "--scale-up", "360 GB/s", "--scale-up-latency", "1 us", "--nic",
                           "45 GB/s", "--nic-latency", "5 us", "--oversubscription"})
    words.emplace_back(word);
  words.push_back(oversubscription);
  return words;
}

}  // namespace

TEST_CASE("collective all_to_all of a matrix prints both levels, the link that binds and the slack") {
  const Result text = collective(plain({"all_to_all", "--bytes-matrix", kMatrix}, "4"));
  CHECK(text.status == 0);
  CHECK(holds(text.out, "L0 (fullest link)   17.713392 ms"));
  CHECK(holds(text.out, "L1 is 8.6 % above L0"));
  CHECK(holds(text.out, "binding             nic receive of rank 22"));
  const Result answered = collective(plain({"all_to_all", "--bytes-matrix", kMatrix, "--json", "-"}, "4"));
  const auto answer = nlohmann::json::parse(answered.out);
  CHECK(answer["schema"] == "moeplan.collective/1");
  CHECK(answer["ranks"] == 64);
  CHECK(answer["l0_s"].get<double>() == doctest::Approx(17.713392e-3).epsilon(1e-6));
  CHECK(answer["l1_s"].get<double>() == doctest::Approx(19.231072e-3).epsilon(1e-3));
  CHECK(answer["binding"] == "nic receive of rank 22");
  CHECK(answer["slack"].get<double>() > 0);
  CHECK(collective(plain({"all_to_all", "--bytes-matrix", kMatrix, "--json", "-"}, "4")).out == answered.out);
}

TEST_CASE("collective all_to_all takes one size for all pairs, with its unit or in bytes") {
  const Result unit = collective(plain({"all_to_all", "--uniform", "1 MB", "--ranks", "64"}));
  CHECK(holds(unit.out, "L1 (fair sharing)   1.249444 ms"));
  CHECK(collective(plain({"all_to_all", "--uniform", "1000000", "--ranks", "64"})).out == unit.out);
}

TEST_CASE("the other collectives take a size and a profile, and say what priced them") {
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "send_recv"}) {
    const Result result =
        collective({name, "--size", "1 GiB", "--ranks", "16", "--hardware", "h100-sxm", "--json", "-"});
    CAPTURE(name);
    CHECK(result.status == 0);
    const auto answer = nlohmann::json::parse(result.out);
    CHECK(answer["l0_s"].get<double>() > 0);
    CHECK(answer["l1_s"].get<double>() >= answer["l0_s"].get<double>());
    CHECK(answer["priced_by"] == "general form");
  }
  const Result entry = collective({"all_gather", "--size", "1 MiB", "--ranks", "8", "--hardware", "h100-sxm"});
  CHECK(holds(entry.out, "priced by           law fitted to measurements: nccl-tests, aiconfigurator"));
}

TEST_CASE("links can be degraded") {
  const std::vector<std::string> base = {"all_to_all", "--uniform", "1 MB", "--ranks", "16"};
  const auto with = [&](const std::string& what) {
    std::vector<std::string> words = plain(base);
    words.insert(words.end(), {"--degrade", what, "--json", "-"});
    return nlohmann::json::parse(collective(words).out)["l0_s"].get<double>();
  };
  // 8 MB over 45 GB/s and 5 us; over half of it; two ranks on one NIC
  CHECK(with("nic:3=1") == doctest::Approx(5e-6 + 8e6 / 45e9));
  CHECK(with("nic:3=0.5") == doctest::Approx(5e-6 + 16e6 / 45e9));
  CHECK(with("rail:0=0") == doctest::Approx(5e-6 + 16e6 / 45e9));
}

TEST_CASE("collective refuses bad input, all faults at once") {
  const Folder folder;
  const auto refused = [](const std::vector<std::string>& words, const std::string& part) {
    const Result result = collective(words);
    CAPTURE(part);
    CHECK(result.status == 2);
    CHECK(holds(result.err, part));
  };
  refused({"all_reduces", "--size", "1 GiB", "--ranks", "8", "--hardware", "h100-sxm"}, "did you mean 'all_reduce'?");
  refused({"all_to_all", "--hardware", "h100-sxm"}, "expected --bytes-matrix FILE, or --uniform SIZE");
  refused({"all_to_all", "--uniform", "1 MB", "--hardware", "h100-sxm"}, "expected --ranks N");
  refused({"all_to_all", "--uniform", "-1", "--ranks", "8", "--hardware", "h100-sxm"}, "--uniform -1: expected a size");
  refused({"all_to_all", "--uniform", "nan", "--ranks", "8", "--hardware", "h100-sxm"},
          "--uniform nan: expected a size");
  refused({"all_to_all", "--uniform", "1 MB", "--ranks", "5000", "--hardware", "h100-sxm"}, "expected at most 4096");
  refused({"all_reduce", "--uniform", "1 MB", "--ranks", "8", "--hardware", "h100-sxm"}, "it takes --size");
  refused({"all_reduce", "--size", "1 GiB", "--ranks", "8"}, "expected --hardware ID, or --gpus-per-node");
  refused({"all_reduce", "--size", "1 GiB", "--ranks", "8", "--hardware", "h1000"}, "unknown hardware profile 'h1000'");
  refused({"all_reduce", "--size", "1 GiB", "--ranks", "8", "--hardware", "h100-sxm", "--nic", "45 GB/s"},
          "--nic: does not go with --hardware");
  refused(plain({"all_reduce", "--size", "1 GiB", "--ranks", "8"}, "0.5"), "expected a number from 1 to 1000");
  refused(plain({"all_reduce", "--size", "1 GiB", "--ranks", "8", "--degrade", "nics:1=0.5"}), "did you mean 'nic'?");
  refused(plain({"all_reduce", "--size", "1 GiB", "--ranks", "8", "--degrade", "nic:9=0.5"}), "there is no rank 9");
  refused({"all_reduce", "--size", "1 GiB", "--ranks", "8", "--hardware", "h100-sxm", "--what"},
          "unknown option '--what'");
  const std::string ragged = folder.write("ragged.csv", "0,1\n-1\n");
  const Result result = collective(plain({"all_to_all", "--bytes-matrix", ragged, "--scale-ups", "1"}));
  CHECK(result.status == 2);
  const Result both = collective(plain({"all_to_all", "--bytes-matrix", ragged, "--ranks", "3"}, "x"));
  CHECK(both.status == 2);
  CHECK(holds(both.err, "ragged.csv:2: expected 2 cells"));
  CHECK(holds(both.err, "got '-1'"));
  CHECK(holds(both.err, "the matrix has 2 ranks"));
  CHECK(holds(both.err, "--oversubscription x"));
  refused(plain({"all_to_all", "--bytes-matrix", folder.at("missing.csv")}), "missing.csv");
}

}  // namespace moeplan::cli
