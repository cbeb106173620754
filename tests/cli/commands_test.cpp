#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;
using nlohmann::json;

TEST_CASE("run answers the shipped quickstart from any folder") {
  const Folder folder;
  const Result result = moeplan({"run", kQuickstart, "--json", folder.at("out.json")});
  CHECK(result.status == 0);
  CHECK(result.out.starts_with("FITS  rank "));
  CHECK(result.err.empty());
  const json j = json::parse(content_of(folder.at("out.json")));
  CHECK(j["schema"] == "moeplan.run/1");
  CHECK(j["ranks"].size() == 16);
  CHECK(j["provenance"]["profile"] == "h100-sxm");
  CHECK_FALSE(holds(result.out, kRoot));
  CHECK_FALSE(holds(content_of(folder.at("out.json")), kRoot));
}

TEST_CASE("run ends with 1 when it does not fit, and still shows why") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  CHECK(small("run", scenario).status == 0);
  // The context and communicators alone take more than a hundredth of the card.
  const Result result = small("run", scenario, {"--set", "memory.usable_fraction=0.01"});
  CHECK(result.status == 1);
  CHECK(result.out.starts_with("OOM   rank "));
  CHECK(result.err.empty());
}

TEST_CASE("--json - leaves nothing but JSON on standard output, for every command") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const std::pair<std::string, Result> runs[] = {
      {"moeplan.run/1", small("run", scenario, {"--json", "-"})},
      {"moeplan.sweep/1", small("sweep", scenario, {"--vary", "mbs=1,2", "--json", "-"})},
      {"moeplan.chunks/1", small("chunks", scenario, {"--counts", "1,2", "--json", "-"})},
      {"moeplan.compare/1", small("compare", scenario, {"--json", "-"})},
      {"moeplan.explain/1", small("explain", scenario, {"--pairs", "2", "--json", "-"})},
      {"moeplan.trace-info/1", moeplan({"trace", "info", kTrace, "--json", "-"})},
      {"moeplan.list/1", moeplan({"list", "models", "--json", "-"})},
      {"moeplan.list/1", moeplan({"list", "keys", "--json", "-"})},
  };
  for (const auto& [schema, result] : runs) {
    CHECK_MESSAGE(result.status == 0, schema);
    CHECK(result.err.empty());
    const json j = json::parse(result.out, nullptr, false);
    REQUIRE_MESSAGE(!j.is_discarded(), schema);
    CHECK(j["schema"] == schema);
    CHECK(j["provenance"].contains("version"));
  }
}

TEST_CASE("results are the same bytes whatever the number of threads") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const std::vector<std::pair<std::string, std::vector<std::string>>> commands = {{"run", {"--iterations", "2"}},
                                                                                  {"sweep", {"--vary", "ep=1,2,3,4"}},
                                                                                  {"chunks", {}},
                                                                                  {"compare", {}},
                                                                                  {"explain", {"--pairs", "3"}}};
  for (const auto& [command, more] : commands) {
    Result results[2];
    std::string jsons[2];
    for (int i = 0; i < 2; ++i) {
      std::vector<std::string> options = more;
      const std::string file = folder.at(command + std::to_string(i));
      for (const std::string& word :
           {std::string("--threads"), std::string(i == 0 ? "1" : "4"), std::string("--json"), file}) {
        options.push_back(word);
      }
      results[i] = small(command, scenario, options);
      jsons[i] = content_of(file);
    }
    CHECK_MESSAGE(results[0].out == results[1].out, command);
    CHECK_MESSAGE(jsons[0] == jsons[1], command);
    CHECK_FALSE(jsons[0].empty());
    CHECK_FALSE(results[0].out.empty());
  }
}

TEST_CASE("--stats goes to standard error and changes no result") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const Result plain = small("run", scenario), with = small("run", scenario, {"--stats"});
  CHECK(plain.err.empty());
  CHECK(with.err.starts_with("stats: wall "));
  CHECK(with.out == plain.out);
}

TEST_CASE("--strict refuses a profile that assumes values, before any result") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--strict"}, {"--strict", "--vary", "mbs=1"}}) {
    const Result result = small(more.size() > 1 ? "sweep" : "run", scenario, more);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(holds(result.err, "error: --strict: host: the time rests on an assumed value of h100-sxm (host.launch)\n"));
    CHECK_FALSE(holds(result.err, "attention"));  // published throughout
  }
}

TEST_CASE("sweep goes on after a combination that cannot be, and ends with 0 when one fits") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const Result result = small("sweep", scenario, {"--vary", "ep=3,4", "--json", folder.at("rows.json")});
  CHECK(result.status == 0);
  const json j = json::parse(content_of(folder.at("rows.json")));
  CHECK(j["complete"] == true);
  REQUIRE(j["rows"].size() == 2);
  CHECK(holds(j["rows"][0]["error"].get<std::string>(), "does not divide"));
  CHECK(j["rows"][1]["error"].is_null());
  CHECK(j["rows"][1]["verdict"] == "FITS");
  CHECK(small("sweep", scenario, {"--vary", "memory.usable_fraction=0.01,0.02"}).status == 1);
  CHECK(small("sweep", scenario, {"--vary", "memory.usable_fraction=0.01,0.94"}).status == 0);
}

TEST_CASE("a sweep whose combinations are all refused is bad input, and still lists them") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const Result result = small("sweep", scenario, {"--vary", "ep=3,5", "--json", folder.at("rows.json")});
  CHECK(result.status == 2);
  CHECK(holds(result.err, "every combination was refused, the first for: --set ep=3"));
  CHECK(json::parse(content_of(folder.at("rows.json")))["rows"].size() == 2);
}

TEST_CASE("sweep refuses a key that it does not know before any row") {
  const Folder folder;
  const Result result = small("sweep", folder.write("s.yaml", kSmall), {"--vary", "epp=1,2", "--vary", "tp=1,1"});
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(holds(result.err, "--vary epp=1,2: unknown key 'epp'"));
  CHECK(holds(result.err, "stands twice"));
}

TEST_CASE("chunks recommends, and ends with 1 when its recommendation does not fit") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const Result result = small("chunks", scenario, {"--counts", "1,4"});
  CHECK(result.status == 0);
  CHECK(result.out.starts_with("RECOMMENDED  "));
  CHECK(small("chunks", scenario, {"--set", "memory.usable_fraction=0.01"}).status == 1);
}

TEST_CASE("chunks and compare refuse more work than the bound, --limit raises it") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  // 8 ranks x 2 layers x 4 microbatches x (60 + 24 x 4096) = 6.3e6 operations: above 1e9 x 0.001, not above 1e9.
  const Result result = small("chunks", scenario, {"--counts", "4096", "--limit", "0.001"});
  CHECK(result.status == 2);
  CHECK(holds(result.err, "--counts 4096"));
  CHECK(small("chunks", scenario, {"--counts", "4097"}).status == 2);
  const Result compared = small("compare", scenario, {"--policies", "none,memfine", "--limit", "1e-9"});
  CHECK(compared.status == 2);
}

TEST_CASE("chunks needs a model with experts") {
  const Folder folder;
  std::string text = replaced(kSmall, "tiny-moe", "tiny-dense");
  text = replaced(text, ", expert_model_parallel_size: 4", "");
  text = text.substr(0, text.find("moe:"));
  const Result result = small("chunks", folder.write("s.yaml", text));
  CHECK(result.status == 2);
  CHECK(holds(result.err, "needs a model with MoE layers"));
}

TEST_CASE("compare tells all unknown policies, and ends with 1 when none fits") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const Result result = small("compare", scenario, {"--policies", "none,memfin,lrmo"});
  CHECK(result.status == 2);
  CHECK(holds(result.err, "got 'memfin'"));
  CHECK(holds(result.err, "got 'lrmo'"));
  const Result fits = small("compare", scenario, {"--policies", "none,memfine+lrmoe"});
  CHECK(fits.status == 0);
  CHECK(holds(fits.out, "memfine+lrmoe"));
  CHECK(holds(fits.out, "LRMoE is moeplan's own formulation (see docs/models.md)"));
  CHECK(small("compare", scenario, {"--policies", "none", "--set", "memory.usable_fraction=0.01"}).status == 1);
}

TEST_CASE("trace info counts the shipped trace") {
  const Result result = moeplan({"trace", "info", kTrace, "--ep", "8,48", "--json", "-"});
  CHECK(result.status == 0);
  const json j = json::parse(result.out);
  CHECK(j["experts"] == 64);
  CHECK(j["top_k"] == 6);
  CHECK(j["tokens"] == 8327);
  CHECK(j["layers"].size() == 26);
  CHECK(j["layers"][0]["copies"] == 8327 * 6);
  CHECK(j["ep_left_out"] == json({48}));
  CHECK(moeplan({"trace", "info", "no/such/trace"}).status == 2);
}

TEST_CASE("list groups prints the groups of a scenario in rank order, and its stages") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);  // 8 GPUs, pp 2, ep 4
  const Result result = small("list", "groups", {scenario});
  CHECK(result.status == 0);
  CHECK(holds(result.out, "stages Ett|ttL"));
  CHECK(holds(result.out, "ep"));
  CHECK(moeplan({"list", "groups"}).status == 2);
}

TEST_CASE("list knows its topics and names") {
  CHECK(holds(moeplan({"list", "hardware"}).out, "h100-sxm"));
  CHECK(holds(moeplan({"list", "hardware", "h100-sxm"}).out, "datasheet"));
  CHECK(holds(moeplan({"list", "models", "--data", kData}).out, "tiny-moe"));
  CHECK(holds(moeplan({"list", "models", "deepseek-v2-lite"}).out, "GFLOP a token"));
  CHECK(holds(moeplan({"list", "policies"}).out, "lrmoe"));
  CHECK(holds(moeplan({"list", "dispatchers"}).out, "alltoall"));
  CHECK(holds(moeplan({"list", "schedules"}).out, "1f1b"));
  CHECK(holds(moeplan({"list", "keys"}).out, "parallel.expert_model_parallel_size"));
  const Result slip = moeplan({"list", "models", "deepseek-v2-lit"});
  CHECK(slip.status == 2);
  CHECK(holds(slip.err, "did you mean 'deepseek-v2-lite'?"));
  CHECK(holds(moeplan({"list", "modles"}).err, "did you mean 'models'?"));
  CHECK(moeplan({"list", "keys", "ep"}).status == 2);
}

TEST_CASE("run gives a range of the step, what binds exchanges, and with an option sensitivities") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const Result plain = small("run", scenario, {"--json", "-"});
  const json j = json::parse(plain.out);
  const double step_s = j["step_time_s"];
  CHECK(j["uncertainty"]["step_time_s"][0] <= step_s);
  CHECK(j["uncertainty"]["step_time_s"][1] >= step_s);
  CHECK(j["uncertainty"]["peak_allocated_bytes"][1] >= j["peak_memory"]["allocated_bytes"]);
  CHECK_FALSE(j.contains("sensitivities"));
  for (const json& kind : j["time"]["exchanges"]) CHECK(kind["bound_by"].size() > 0);
  const json with = json::parse(small("run", scenario, {"--sensitivities", "--json", "-"}).out);
  CHECK(with["sensitivities"].size() > 20);
  CHECK(with["sensitivities"][0]["peak_unaffected"] == true);
  const Result text = small("run", scenario, {"--sensitivities"});
  CHECK(holds(text.out, "at 90 %)"));
  CHECK(holds(text.out, with["sensitivities"][0]["key"].get<std::string>()));
  // Any number of threads, the same bytes.
  CHECK(small("run", scenario, {"--sensitivities", "--threads", "3"}).out == text.out);
}

TEST_CASE("run writes the memory of one rank over time") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall), file = folder.at("memory.json");
  CHECK(small("run", scenario, {"--memory-timeline", file, "--rank", "1"}).status == 0);
  const json j = json::parse(content_of(file));
  CHECK(j["schema"] == "moeplan.memory_timeline/1");
  CHECK(j["rank"] == 1);
  CHECK(j["iterations"] == 2);
  CHECK(j["out_of_memory"].is_null());
  std::map<std::string, std::size_t> column;
  for (const json& name : j["columns"]) column.emplace(name, column.size());
  REQUIRE(column.size() == 16);
  std::int64_t held = 0, peak = 0;
  double time_s = 0;
  for (const json& event : j["events"]) {
    REQUIRE(event.size() == column.size());
    const std::int64_t bytes = event[column["bytes"]];
    const std::string action = event[column["action"]];
    if (action == "alloc") held += bytes;
    if (action == "free" || action == "free_requested") held -= bytes;
    CHECK(event[column["allocated_bytes"]] == held);
    CHECK(event[column["tensor"]].get<std::size_t>() < j["tensors"].size());
    if (event[column["iteration"]] >= 0) {
      CHECK(event[column["op"]].get<std::size_t>() < j["ops"].size());
      peak = std::max(peak, held);
    }
    CHECK(event[column["time_s"]] >= time_s);  // program order is the host's
    time_s = event[column["time_s"]];
  }
  CHECK(j["peak_allocated_bytes"] == peak);
  CHECK(time_s > j["step_time_s"]);
  CHECK(time_s <= 2 * j["step_time_s"].get<double>());
}

TEST_CASE("a timeline needs a rank that is there, and a rank a timeline") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall), file = folder.at("memory.json");
  const Result beyond = small("run", scenario, {"--memory-timeline", file, "--rank", "9999"});
  CHECK(beyond.status == 2);
  CHECK(holds(beyond.err, "--rank: expected a rank from 0 to "));
  const Result alone = small("run", scenario, {"--rank", "0"});
  CHECK(alone.status == 2);
  CHECK(holds(alone.err, "add --memory-timeline FILE"));
  const Result nowhere = small("run", scenario, {"--memory-timeline", folder.at("no/such/folder.json")});
  CHECK(nowhere.status == 2);
  CHECK(holds(nowhere.err, "--memory-timeline " + folder.at("no/such/folder.json") + ": cannot write"));
  const Result itself = small("run", scenario, {"--memory-timeline", scenario});
  CHECK(itself.status == 2);
  CHECK(holds(itself.err, "--memory-timeline " + scenario + ": would replace the input '" + scenario + "'"));
  CHECK(content_of(scenario) == kSmall);
}

}  // namespace moeplan::cli
