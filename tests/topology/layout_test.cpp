#include "topology/layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <set>

using namespace moeplan;
using topology::GroupKind;
using topology::Layout;

namespace {

Layout layout_of(std::int64_t world, std::int64_t tp, std::int64_t cp, std::int64_t pp, std::int64_t ep,
                 std::int64_t etp) {
  Layout layout;
  layout.world = world;
  layout.tp = tp;
  layout.cp = cp;
  layout.pp = pp;
  layout.ep = ep;
  layout.etp = etp;
  return layout;
}

using Ranks = std::vector<std::int64_t>;
constexpr GroupKind kKinds[] = {GroupKind::tp, GroupKind::ep,      GroupKind::dp,   GroupKind::edp,
                                GroupKind::cp, GroupKind::dp_only, GroupKind::etp,  GroupKind::etp_ep,
                                GroupKind::pp, GroupKind::stage,   GroupKind::world};
static_assert(std::size(kKinds) == topology::kGroupKinds);

std::string text(const Layout& layout) {
  std::string result = "world";
  for (const std::int64_t size : {layout.world, layout.tp, layout.cp, layout.pp, layout.ep, layout.etp})
    result += " " + std::to_string(size);
  return result;
}

void check_places(const Layout& layout) {
  CAPTURE(text(layout));
  for (std::int64_t rank = 0; rank < layout.world; ++rank) {
    const Layout::Place place = layout.place(rank);
    REQUIRE(layout.rank_of(place.tp, place.cp, place.dp, place.pp) == rank);
    REQUIRE(place.dp < layout.dp());
    const std::int64_t in_stage = place.etp + layout.etp * (place.ep + layout.ep * place.edp);
    REQUIRE(place.pp * layout.stage_size() + in_stage == rank);
  }
}

// Members of a group agree on its index, and each rank is in exactly one group.
void check_partition(const Layout& layout, GroupKind kind) {
  CAPTURE(text(layout));
  CAPTURE(static_cast<int>(kind));
  std::set<std::int64_t> indices;
  std::vector<int> seen(static_cast<std::size_t>(layout.world), 0);
  for (std::int64_t rank = 0; rank < layout.world; ++rank) {
    const std::int64_t index = group_index(layout, kind, rank);
    REQUIRE(index >= 0);
    REQUIRE(index < group_count(layout, kind));
    const Ranks members = group_members(layout, kind, rank);
    REQUIRE(std::count(members.begin(), members.end(), rank) == 1);
    REQUIRE(static_cast<std::int64_t>(members.size()) == group_size(layout, kind));
    const bool is_new = indices.insert(index).second;
    for (const std::int64_t member : members) {
      REQUIRE(group_index(layout, kind, member) == index);
      if (is_new) ++seen[static_cast<std::size_t>(member)];
    }
  }
  REQUIRE(static_cast<std::int64_t>(indices.size()) == group_count(layout, kind));
  REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
}

}  // namespace

TEST_CASE("16 ranks, TP 2, PP 2, EP 4: coordinates by hand") {
  // A stage has 8 ranks. Dense: tp = r mod 2, dp = (r mod 8) / 2 of 4. Experts: ep = r mod 4, edp = (r mod 8) / 4 of 2.
  const Layout layout = layout_of(16, 2, 1, 2, 4, 1);
  CHECK(layout.dp() == 4);
  CHECK(layout.edp() == 2);
  CHECK(layout.stage_size() == 8);
  struct Row {
    std::int64_t rank, tp, dp, pp, ep, edp;
  };
  const Row rows[] = {{0, 0, 0, 0, 0, 0},  {1, 1, 0, 0, 1, 0},  {2, 0, 1, 0, 2, 0},  {3, 1, 1, 0, 3, 0},
                      {4, 0, 2, 0, 0, 1},  {5, 1, 2, 0, 1, 1},  {6, 0, 3, 0, 2, 1},  {7, 1, 3, 0, 3, 1},
                      {8, 0, 0, 1, 0, 0},  {9, 1, 0, 1, 1, 0},  {10, 0, 1, 1, 2, 0}, {11, 1, 1, 1, 3, 0},
                      {12, 0, 2, 1, 0, 1}, {13, 1, 2, 1, 1, 1}, {14, 0, 3, 1, 2, 1}, {15, 1, 3, 1, 3, 1}};
  for (const Row& row : rows) {
    CAPTURE(row.rank);
    const Layout::Place place = layout.place(row.rank);
    CHECK(place.tp == row.tp);
    CHECK(place.cp == 0);
    CHECK(place.dp == row.dp);
    CHECK(place.pp == row.pp);
    CHECK(place.etp == 0);
    CHECK(place.ep == row.ep);
    CHECK(place.edp == row.edp);
  }
}

TEST_CASE("16 ranks, TP 2, PP 2, EP 4: groups by hand") {
  const Layout layout = layout_of(16, 2, 1, 2, 4, 1);
  CHECK(group_members(layout, GroupKind::tp, 5) == Ranks{4, 5});
  CHECK(group_members(layout, GroupKind::ep, 5) == Ranks{4, 5, 6, 7});
  CHECK(group_members(layout, GroupKind::ep, 10) == Ranks{8, 9, 10, 11});
  CHECK(group_members(layout, GroupKind::dp, 5) == Ranks{1, 3, 5, 7});
  CHECK(group_members(layout, GroupKind::dp, 8) == Ranks{8, 10, 12, 14});
  CHECK(group_members(layout, GroupKind::edp, 5) == Ranks{1, 5});
  CHECK(group_members(layout, GroupKind::edp, 15) == Ranks{11, 15});
  CHECK(group_members(layout, GroupKind::stage, 9) == Ranks{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(group_members(layout, GroupKind::world, 9).size() == 16);
  CHECK(group_count(layout, GroupKind::tp) == 8);
  CHECK(group_count(layout, GroupKind::ep) == 4);
  CHECK(group_count(layout, GroupKind::dp) == 4);
  CHECK(group_count(layout, GroupKind::edp) == 8);
  CHECK(group_count(layout, GroupKind::stage) == 2);
  CHECK(group_count(layout, GroupKind::world) == 1);
}

TEST_CASE("EP may be larger than DP: expert groups take in tensor-parallel ranks") {
  // 8 ranks, TP 4: DP is 2, EP 8. All eight ranks are one expert group.
  const Layout layout = layout_of(8, 4, 1, 1, 8, 1);
  CHECK(layout.dp() == 2);
  CHECK(layout.edp() == 1);
  CHECK(group_members(layout, GroupKind::ep, 3) == Ranks{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(group_members(layout, GroupKind::dp, 3) == Ranks{3, 7});
  CHECK(group_members(layout, GroupKind::edp, 3) == Ranks{3});
}

TEST_CASE("expert tensor parallelism is fastest inside an expert group") {
  // 8 ranks, ETP 2, EP 2: etp = r mod 2, ep = (r / 2) mod 2, edp = r / 4.
  const Layout layout = layout_of(8, 2, 1, 1, 2, 2);
  CHECK(group_members(layout, GroupKind::ep, 0) == Ranks{0, 2});
  CHECK(group_members(layout, GroupKind::ep, 1) == Ranks{1, 3});
  CHECK(group_members(layout, GroupKind::ep, 7) == Ranks{5, 7});
  CHECK(group_members(layout, GroupKind::edp, 3) == Ranks{3, 7});
}

TEST_CASE("data-parallel groups span the context-parallel ranks") {
  // 8 ranks, TP 2, CP 2: dp = r / 4; the group of tp 1 is 1, 3 (cp) and 5, 7.
  const Layout layout = layout_of(8, 2, 2, 1, 1, 1);
  CHECK(layout.dp() == 2);
  CHECK(group_members(layout, GroupKind::dp, 1) == Ranks{1, 3, 5, 7});
  CHECK(layout.place(6).cp == 1);
  CHECK(layout.place(6).dp == 1);
}

TEST_CASE("place and rank_of are inverse, and every kind of group partitions the ranks") {
  int layouts = 0;
  for (std::int64_t world : {1, 2, 8, 12, 24, 48})
    for (std::int64_t tp : {1, 2, 4})
      for (std::int64_t cp : {1, 2, 3})
        for (std::int64_t pp : {1, 2, 3})
          for (std::int64_t ep : {1, 2, 3, 8})
            for (std::int64_t etp : {1, 2}) {
              const Layout layout = layout_of(world, tp, cp, pp, ep, etp);
              if (!layout_faults(layout).empty()) continue;
              ++layouts;
              check_places(layout);
              for (const GroupKind kind : kKinds) check_partition(layout, kind);
            }
  CHECK(layouts > 100);
}

TEST_CASE("world 32, TP 2, CP 2, PP 2, EP 4: groups by hand") {
  // A stage has 16 ranks. Dense: tp = r mod 2, cp = (r / 2) mod 2, dp = r / 4 of 4.
  for (const std::int64_t etp : {1, 2}) {
    const Layout layout = layout_of(32, 2, 2, 2, 4, etp);
    CHECK(layout.dp() == 4);
    CHECK(group_members(layout, GroupKind::tp, 22) == Ranks{22, 23});
    CHECK(group_members(layout, GroupKind::cp, 5) == Ranks{5, 7});
    CHECK(group_members(layout, GroupKind::cp, 22) == Ranks{20, 22});
    CHECK(group_members(layout, GroupKind::dp_only, 5) == Ranks{1, 5, 9, 13});
    CHECK(group_members(layout, GroupKind::dp_cp, 5) == Ranks{1, 3, 5, 7, 9, 11, 13, 15});
    CHECK(group_members(layout, GroupKind::pp, 5) == Ranks{5, 21});
    CHECK(group_members(layout, GroupKind::pp, 30) == Ranks{14, 30});
    CHECK(group_count(layout, GroupKind::cp) == 16);
    CHECK(group_count(layout, GroupKind::dp_only) == 8);
    CHECK(group_count(layout, GroupKind::pp) == 16);
  }
  // ETP 1: ep = r mod 4, edp = r / 4 of 4 in a stage
  const Layout one = layout_of(32, 2, 2, 2, 4, 1);
  CHECK(one.edp() == 4);
  CHECK(group_members(one, GroupKind::etp, 6) == Ranks{6});
  CHECK(group_members(one, GroupKind::ep, 22) == Ranks{20, 21, 22, 23});
  CHECK(group_members(one, GroupKind::etp_ep, 22) == Ranks{20, 21, 22, 23});
  CHECK(group_members(one, GroupKind::edp, 22) == Ranks{18, 22, 26, 30});
  // ETP 2: etp = r mod 2, ep = (r / 2) mod 4, edp = r / 8 of 2 in a stage
  const Layout two = layout_of(32, 2, 2, 2, 4, 2);
  CHECK(two.edp() == 2);
  CHECK(group_members(two, GroupKind::etp, 22) == Ranks{22, 23});
  CHECK(group_members(two, GroupKind::ep, 22) == Ranks{16, 18, 20, 22});
  CHECK(group_members(two, GroupKind::etp_ep, 22) == Ranks{16, 17, 18, 19, 20, 21, 22, 23});
  CHECK(group_members(two, GroupKind::edp, 22) == Ranks{22, 30});
  CHECK(group_count(two, GroupKind::etp_ep) == 4);
}

TEST_CASE("groups as text: a heading a kind, a line a group, long groups shortened") {
  const std::string small = groups_text(layout_of(8, 2, 1, 2, 2, 1));
  // stages of 4: dp = r / 2 of 2
  CHECK(small.find("tensor parallel (tp): 4 groups of 2\n  0: 0 1\n  1: 2 3\n  2: 4 5\n  3: 6 7\n") == 0);
  CHECK(small.find("data parallel (dp): 4 groups of 2\n  0: 0 2\n  1: 1 3\n  2: 4 6\n  3: 5 7\n") != std::string::npos);
  CHECK(small.find("pipeline parallel (pp): 4 groups of 2\n  0: 0 4\n  1: 1 5\n") != std::string::npos);
  CHECK(small.find("world: 1 group of 8\n  0: 0 1 2 3 4 5 6 7\n") != std::string::npos);
  const std::string large = groups_text(layout_of(128, 2, 1, 1, 1, 1));
  CHECK(large.find("data parallel (dp): 2 groups of 64\n  0: 0 2 .. 126 (64 ranks)\n") != std::string::npos);
}

TEST_CASE("virtual stages need more than one stage, and move no rank") {
  Layout layout = layout_of(16, 2, 1, 1, 4, 1);
  layout.vpp = 2;
  const auto faults = layout_faults(layout);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].first == "virtual_pipeline_model_parallel_size");
  layout.pp = 2;
  CHECK(layout_faults(layout).empty());
  CHECK(group_members(layout, GroupKind::pp, 3) == Ranks{3, 11});
  layout.vpp = 0;
  CHECK(layout_faults(layout).size() == 1);
}

TEST_CASE("a layout that does not divide the world names the numbers of each rule it breaks") {
  CHECK(layout_faults(layout_of(16, 2, 1, 2, 4, 1)).empty());
  const auto dense =
      layout_faults(layout_of(16, 3, 1, 2, 4, 1));  // 3 x 1 x 2 = 6 does not divide 16; 4 x 1 x 2 = 8 does
  REQUIRE(dense.size() == 1);
  CHECK(dense[0].first == "tensor_model_parallel_size");
  CHECK(dense[0].second.find("3 x 1 x 2 = 6 does not divide the 16 GPUs") != std::string::npos);
  const auto expert = layout_faults(layout_of(16, 2, 1, 2, 16, 1));  // 32 does not divide 16
  REQUIRE(expert.size() == 1);
  CHECK(expert[0].first == "expert_model_parallel_size");
  CHECK(expert[0].second.find("16 x 1 x 2 = 32") != std::string::npos);
  CHECK(layout_faults(layout_of(16, 3, 1, 1, 5, 1)).size() == 2);
}

TEST_CASE("sizes below one are faults of their own: huge ones do not overflow") {
  const auto zero = layout_faults(layout_of(16, 0, 1, 2, 4, 1));
  REQUIRE(zero.size() == 1);
  CHECK(zero[0].first == "tensor_model_parallel_size");
  CHECK(layout_faults(layout_of(0, 1, 1, 1, 1, 1)).size() == 1);
  const std::int64_t huge = std::int64_t{1} << 40;
  const auto faults = layout_faults(layout_of(16, huge, huge, 1, 1, 1));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].second.find("more than 2^63") != std::string::npos);
}
