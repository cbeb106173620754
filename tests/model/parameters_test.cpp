#include "model/parameters.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "support.h"

using namespace moeplan::model;
using moeplan::model::test::edit;
using moeplan::model::test::kGqaText;
using moeplan::model::test::kMlaText;
using moeplan::model::test::load;
using moeplan::model::test::read;

TEST_CASE("a small GQA layer counts q, k, v, o, biases, q/k norms and SwiGLU matrices by hand") {
  const std::string with_extras =
      edit(kGqaText, "  kv_channels: 6\n", "  kv_channels: 6\n  add_qkv_bias: true\n  qk_layernorm: true\n");
  const Architecture plain = read(kGqaText);
  const Architecture extras = read(with_extras);
  // h = 8, q width 4 x 6 = 24, k and v width 2 x 6 = 12: q and o 2 x 8 x 24 = 384, k and v 2 x 8 x 12 = 192.
  const LayerParameters dense = layer_parameters(plain, LayerKind::dense);
  CHECK(dense.attention_sharded == 576);
  CHECK(dense.attention_replicated == 0);
  CHECK(dense.norms == 16);
  CHECK(dense.mlp == 3 * 8 * 16);
  CHECK(dense.router + dense.experts + dense.shared + dense.shared_gate == 0);
  CHECK(dense.total() == 576 + 16 + 384);
  // Router 8 x 5, experts 5 x 3 x 8 x 3 = 360.
  const LayerParameters moe = layer_parameters(plain, LayerKind::moe);
  CHECK(moe.mlp == 0);
  CHECK(moe.router == 40);
  CHECK(moe.experts == 360);
  CHECK(moe.total() == 576 + 16 + 40 + 360);
  // Biases 24 + 12 + 12 = 48 are split with their matrices; two norms over a head of 6 are whole on each rank.
  CHECK(layer_parameters(extras, LayerKind::dense).attention_sharded == 576 + 48);
  CHECK(layer_parameters(extras, LayerKind::dense).attention_replicated == 12);
}

TEST_CASE("a small MLA layer counts with and without query compression, with shared expert and gate") {
  // h = 8, 4 heads, q 6 + 2, v 7. Down: 8 x 5 + 8 x (3 + 2) = 80, latent norms 5 + 3.
  // Up: q 5 x 4 x 8 = 160, kv 3 x 4 x (6 + 7) = 156, out 4 x 7 x 8 = 224.
  const LayerParameters layer = layer_parameters(read(kMlaText), LayerKind::moe);
  CHECK(layer.attention_replicated == 88);
  CHECK(layer.attention_sharded == 540);
  CHECK(layer.shared == 3 * 8 * 4);
  CHECK(layer.shared_gate == 8);
  // Without q_lora: q 8 x 4 x 8 = 256, nothing compressed and no norm for it.
  const LayerParameters direct = layer_parameters(read(edit(kMlaText, "  q_lora_rank: 5\n", "")), LayerKind::moe);
  CHECK(direct.attention_replicated == 8 * 5 + 3);
  CHECK(direct.attention_sharded == 256 + 156 + 224);
}

TEST_CASE("a model adds its layers, embedding, head and final norm, tied embeddings once") {
  const Architecture arch = read(kGqaText);
  const ModelParameters model = model_parameters(arch);
  CHECK(model.embedding == 80);
  CHECK(model.head == 80);
  CHECK(model.final_norm == 8);
  CHECK(model.experts == 2 * 360);
  CHECK(model.total() == 80 + 80 + 8 + 976 + 2 * 992);
  // Two of five experts: 2 layers x 3 x 72 fewer.
  const std::int64_t body = 8 + 976 + 2 * 992 - 2 * 3 * 72;
  CHECK(active_parameters(arch, ActiveConvention::everything) == body + 160);
  CHECK(active_parameters(arch, ActiveConvention::without_embedding) == body + 80);
  CHECK(active_parameters(arch, ActiveConvention::without_embedding_and_head) == body);

  const Architecture tied = read(std::string(kGqaText) + "tie_word_embeddings: true\n");
  CHECK(model_parameters(tied).total() == model.total() - 80);
  CHECK(active_parameters(tied, ActiveConvention::everything) == body + 80);
  CHECK(active_parameters(tied, ActiveConvention::without_embedding) == body + 80);  // it is the head too
  CHECK(active_parameters(tied, ActiveConvention::without_embedding_and_head) == body);
}

TEST_CASE("a DeepSeek-V3 layer has the published counts") {
  const Architecture v3 = load("deepseek-v3-no-mtp");
  // W_DQ 7168 x 1536 = 11,010,048; W_UQ and W_QR 1536 x 128 x 192 = 37,748,736; W_DKV and W_KR 7168 x 576 = 4,128,768;
  // W_UK and W_UV 512 x 128 x 256 = 16,777,216; W_O 16,384 x 7168 = 117,440,512; q_norm 1536, kv_norm 512.
  const LayerParameters moe = layer_parameters(v3, LayerKind::moe);
  CHECK(moe.attention_sharded + moe.attention_replicated == 187'107'328);
  CHECK(moe.attention_replicated == 11'010'048 + 4'128'768 + 2'048);
  // 257 experts x 3 x 7168 x 2048 and a router of 7168 x 256; the correction bias is no trained parameter.
  CHECK(moe.experts + moe.shared + moe.shared_gate + moe.router == 11'320'164'352);
  CHECK(layer_parameters(v3, LayerKind::dense).mlp == 3LL * 7168 * 18'432);
}

TEST_CASE("a 4-layer middle stage of DeepSeek-V3 at PP16 TP2 EP8 holds what Megatron's rule and the paper's say") {
  const Architecture v3 = load("deepseek-v3-no-mtp");
  const Sharding sharding{2, 8, 1};
  // Megatron: (37,748,736 + 16,777,216 + 117,440,512) / 2 + 15,140,864 whole + norms 14,336 + router 1,835,008 + shared
  // 44,040,192 / 2 = 124,993,536; 32 experts 1,409,286,144.
  const RankLayerParameters rank = rank_layer_parameters(v3, LayerKind::moe, sharding);
  CHECK(rank.dense == 124'993'536);
  CHECK(rank.experts == 1'409'286'144);
  CHECK(4 * (rank.dense + rank.experts) == 6'137'118'720);
  // arXiv 2502.07846, table of parameters a device.
  const PaperLayerParameters paper = paper_layer_parameters(v3, sharding);
  CHECK(4 * paper.mla == 429'654'016);
  CHECK(4 * paper.norms == 65'536);
  CHECK(4 * paper.moe == 5'820'645'376);
  CHECK(4 * (paper.mla + paper.norms + paper.moe) == 6'250'364'928);
}

TEST_CASE("sharding divides each group by its own sizes") {
  const Architecture arch = read(kGqaText);
  const LayerParameters moe = layer_parameters(arch, LayerKind::moe);
  const RankLayerParameters whole = rank_layer_parameters(arch, LayerKind::moe, {});
  CHECK(whole.dense + whole.experts == moe.total());
  // 576 / 2 + norms 16 + router 40; 5 experts over 5 ranks, each of 72 elements over 3.
  const RankLayerParameters split = rank_layer_parameters(arch, LayerKind::moe, {2, 5, 3});
  CHECK(split.dense == 288 + 16 + 40);
  CHECK(split.experts == 24);
  // 5 experts over 2 ranks: the larger holds 3.
  CHECK(rank_layer_parameters(arch, LayerKind::moe, {1, 2, 1}).experts == 3 * 72);
  const RankLayerParameters dense = rank_layer_parameters(arch, LayerKind::dense, {2, 5, 1});
  CHECK(dense.dense == 288 + 16 + 192);
  CHECK(dense.experts == 0);
  // The paper's rule on a model without latent attention: q, k, v, o divided, shared expert and router whole.
  const PaperLayerParameters paper = paper_layer_parameters(arch, {2, 5, 1});
  CHECK(paper.mla == 288);
  CHECK(paper.norms == 16);
  CHECK(paper.moe == 72 + 40);
}

TEST_CASE("computed totals agree with the published ones to 1 %") {
  for (const char* const name : {"deepseek-v3-no-mtp", "deepseek-v2-lite", "qwen3-30b-a3b"}) {
    CAPTURE(name);
    const Architecture arch = load(name);
    REQUIRE(arch.published.total_parameters > 0);
    const double total = static_cast<double>(model_parameters(arch).total());
    CHECK(std::abs(total / arch.published.total_parameters - 1.0) < 0.01);
  }
  // By hand: 61 x 187,107,328 + 61 x 14,336 + 3 x 396,361,728 + 58 x 11,320,164,352 + 2 x 926,679,040 + 7,168.
  CHECK(model_parameters(load("deepseek-v3-no-mtp")).total() == 671'026'404'352);
  // 27 x 13,763,072 + 27 x 4,096 + 67,239,936 + 26 x 571,080,704 + 2 x 209,715,200 + 2,048.
  CHECK(model_parameters(load("deepseek-v2-lite")).total() == 15'706'484'224);
  // 48 x (18,874,624 + 4,096 + 604,241,920) + 2 x 311,164,928 + 2,048.
  CHECK(model_parameters(load("qwen3-30b-a3b")).total() == 30'532'122'624);
}

TEST_CASE(
    "active parameters agree with the published ones in the convention that the model file names, and in no smaller "
    "one") {
  struct Row {
    const char* name;
    double half_unit;  // of the last published digit
    ActiveConvention convention;
  };
  for (const Row& row : {Row{"deepseek-v3-no-mtp", 0.5e9, ActiveConvention::without_embedding},
                         Row{"deepseek-v2-lite", 0.05e9, ActiveConvention::without_embedding},
                         Row{"qwen3-30b-a3b", 0.05e9, ActiveConvention::everything}}) {
    CAPTURE(row.name);
    const Architecture arch = load(row.name);
    REQUIRE(arch.published.active_convention == row.convention);
    const double published = arch.published.active_parameters;
    const double active = static_cast<double>(active_parameters(arch, row.convention));
    CHECK(std::abs(active - published) < row.half_unit + 0.01 * published);
    const double bare = static_cast<double>(active_parameters(arch, ActiveConvention::without_embedding_and_head));
    CHECK(std::abs(bare - published) > row.half_unit + 0.01 * published);
  }
  // V3: 35,698,924,544 in the layers and final norm, the head's 926,679,040 on top: README_WEIGHTS prints 36.7 B.
  CHECK(active_parameters(load("deepseek-v3-no-mtp"), ActiveConvention::without_embedding) == 36'625'603'584);
  CHECK(active_parameters(load("deepseek-v2-lite"), ActiveConvention::without_embedding) == 2'451'435'008);
  CHECK(active_parameters(load("qwen3-30b-a3b"), ActiveConvention::everything) == 3'353'032'704);
}

TEST_CASE("the layer-reduced models keep DeepSeek-V3's layers") {
  const Architecture v3 = load("deepseek-v3-no-mtp");
  for (const auto& [name, layers] : {std::pair{"memfine-1", 16}, std::pair{"memfine-2", 8}}) {
    CAPTURE(name);
    const Architecture arch = load(name);
    CHECK(arch.layer_count() == layers);
    CHECK(arch.moe_layer_count() == layers - 3);
    CHECK(arch.moe_layer_ids().front() == 3);
    CHECK(arch.moe_layer_ids().back() == layers - 1);
    for (const LayerKind kind : {LayerKind::dense, LayerKind::moe}) {
      CHECK(layer_parameters(arch, kind).total() == layer_parameters(v3, kind).total());
    }
    CHECK(arch.attention.qk_dim() == 192);  // the head width that the paper's closed form fits
    CHECK(arch.attention.kv_heads == 128);
  }
}
