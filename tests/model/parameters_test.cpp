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

namespace {

// Published figures and half a unit of their last digit (0: not rounded enough to matter).
struct PublishedRow {
  const char* name;
  double total, total_half, active, active_half;
  ActiveConvention convention;
};
constexpr ActiveConvention kAll = ActiveConvention::everything;
constexpr ActiveConvention kNoEmbedding = ActiveConvention::without_embedding;
constexpr ActiveConvention kBody = ActiveConvention::without_embedding_and_head;
const PublishedRow kPublished[] = {
    {"deepseek-v3-no-mtp", 671e9, 0.5e9, 37e9, 0.5e9, kNoEmbedding},
    {"deepseek-v3", 671e9, 0.5e9, 37e9, 0.5e9, kNoEmbedding},
    {"deepseek-v2", 236e9, 0.5e9, 21e9, 0.5e9, kNoEmbedding},
    {"deepseek-v2-lite", 15.7e9, 0.05e9, 2.4e9, 0.05e9, kNoEmbedding},
    {"kimi-k2", 1.04e12, 0.005e12, 32.6e9, 0.05e9, kAll},
    {"moonlight-16b-a3b", 16e9, 0.5e9, 2.24e9, 0.005e9, kBody},
    {"glm-4.5-air", 106e9, 0.5e9, 12e9, 0.5e9, kBody},
    {"qwen3-30b-a3b", 30.5e9, 0.05e9, 3.3e9, 0.05e9, kAll},
    {"qwen3-235b-a22b", 235e9, 0.5e9, 22e9, 0.5e9, kAll},
    {"qwen1.5-moe-a2.7b", 14.3e9, 0.05e9, 2.7e9, 0.05e9, kAll},
    {"qwen2-57b-a14b", 57e9, 0.5e9, 14e9, 0.5e9, kAll},
    {"mixtral-8x7b", 46.7e9, 0.05e9, 12.9e9, 0.05e9, kAll},
    {"mixtral-8x22b", 141e9, 0.5e9, 39e9, 0.5e9, kAll},
    {"gpt-oss-20b", 20.91e9, 0.005e9, 3.61e9, 0.005e9, kNoEmbedding},
    {"gpt-oss-120b", 116.83e9, 0.005e9, 5.13e9, 0.005e9, kNoEmbedding},
    {"olmoe-1b-7b", 6.9e9, 0.05e9, 1.3e9, 0.05e9, kAll},
    {"llama3-8b", 8.03e9, 0.005e9, 0, 0, kAll},
    {"llama3-70b", 70.6e9, 0.05e9, 0, 0, kAll},
    {"llama3.1-8b", 8.03e9, 0.005e9, 0, 0, kAll},
    {"llama3.1-70b", 70.6e9, 0.05e9, 0, 0, kAll},
    {"llama3.1-405b", 405e9, 0.5e9, 0, 0, kAll},
    {"qwen3-8b", 8.2e9, 0.05e9, 0, 0, kAll},
    {"qwen3-32b", 32.8e9, 0.05e9, 0, 0, kAll},
};

}  // namespace

TEST_CASE("computed totals, MTP blocks left out, agree with the published ones to 1 % beside their rounding") {
  for (const PublishedRow& row : kPublished) {
    CAPTURE(row.name);
    const Architecture arch = load(row.name);
    CHECK(arch.published.total_parameters == row.total);
    const ModelParameters model = model_parameters(arch);
    const double total = static_cast<double>(model.total() - model.mtp);
    CHECK(std::abs(total - row.total) < row.total_half + 0.01 * row.total);
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
    "one where the figure can tell") {
  for (const PublishedRow& row : kPublished) {
    if (row.active == 0) continue;
    CAPTURE(row.name);
    const Architecture arch = load(row.name);
    CHECK(arch.published.active_parameters == row.active);
    REQUIRE(arch.published.active_convention == row.convention);
    const double active = static_cast<double>(active_parameters(arch, row.convention));
    CHECK(std::abs(active - row.active) < row.active_half + 0.01 * row.active);
  }
  // Where one matrix is larger than twice the tolerance, the next smaller convention does not fit.
  int told_apart = 0;
  for (const PublishedRow& row : kPublished) {
    const Architecture arch = load(row.name);
    const double tolerance = row.active_half + 0.01 * row.active;
    const double matrix = static_cast<double>(arch.vocab * arch.hidden);
    if (row.active == 0 || row.convention == kBody || matrix < 2.0 * tolerance) continue;
    CAPTURE(row.name);
    const ActiveConvention smaller = row.convention == kAll ? kNoEmbedding : kBody;
    CHECK(std::abs(static_cast<double>(active_parameters(arch, smaller)) - row.active) > tolerance);
    ++told_apart;
  }
  CHECK(told_apart >= 6);
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

TEST_CASE("an MTP block is one more layer, a projection of 2h to h and three norms") {
  const Architecture arch = read(std::string(kGqaText) + "mtp_num_layers: 2\n");
  // The last layer is MoE: 992; projection 2 x 8 x 8 = 128; norms 3 x 8.
  CHECK(mtp_block_parameters(arch) == 992 + 128 + 24);
  const ModelParameters model = model_parameters(arch);
  CHECK(model.mtp == 2 * 1144);
  CHECK(model.total() == model_parameters(read(kGqaText)).total() + 2 * 1144);
  CHECK(model.experts == 2 * 360);  // those of the layers alone
  // Publishers leave MTP out of what is active.
  CHECK(active_parameters(arch, ActiveConvention::everything) ==
        active_parameters(read(kGqaText), ActiveConvention::everything));
  CHECK(mtp_block_parameters(read(kGqaText)) == 0);
  // A rank at TP2 EP5 ETP3: the layer's 344 and 24, projection 64, norms 24.
  const RankLayerParameters rank = rank_mtp_parameters(arch, {2, 5, 3});
  CHECK(rank.dense == 344 + 64 + 24);
  CHECK(rank.experts == 24);
  CHECK(rank_mtp_parameters(read(kGqaText), {2, 5, 3}).dense == 0);
  // DeepSeek-V3: MoE layer 187,107,328 + 14,336 + 11,320,164,352, projection 2 x 7168^2, norms 3 x 7168 = 11.61e9;
  // README_WEIGHTS.md of the repository prints 11.5 B of unique parameters.
  CHECK(mtp_block_parameters(load("deepseek-v3")) == 187'107'328 + 14'336 + 11'320'164'352 + 102'760'448 + 21'504);
}

TEST_CASE("gelu has two projections, and biases stand on both, the second whole on each rank") {
  const Architecture gelu = read(std::string(kGqaText) + "mlp: gelu\nadd_bias_linear: true\n");
  // Dense: 2 x 8 x 16 + first bias 16 divided, second bias 8 whole.
  const LayerParameters dense = layer_parameters(gelu, LayerKind::dense);
  CHECK(dense.mlp == 256 + 16);
  CHECK(dense.mlp_replicated == 8);
  // Attention: 576 + biases of q, k, v 48; of the output 8, whole. Norms without a bias.
  CHECK(dense.attention_sharded == 576 + 48);
  CHECK(dense.attention_replicated == 8);
  CHECK(dense.norms == 16);
  CHECK(dense.total() == 272 + 8 + 624 + 8 + 16);
  // Five experts of 2 x 8 x 3 + 3 + 8; a router of 40 + 5.
  const LayerParameters moe = layer_parameters(gelu, LayerKind::moe);
  CHECK(moe.experts == 5 * (48 + 3 + 8));
  CHECK(moe.router == 45);
  // At TP2 ETP3: (624 + 272) / 2 + 8 + 8 + 16; experts (48 + 3) / 3 + 8 each.
  CHECK(rank_layer_parameters(gelu, LayerKind::dense, {2, 1, 1}).dense == 448 + 32);
  CHECK(rank_layer_parameters(gelu, LayerKind::moe, {2, 5, 3}).experts == 17 + 8);
  CHECK(model_parameters(gelu).mlp == 280);
  // SwiGLU's first projection has 2 x 3 columns, so 6 biases: 72 + 6 + 8. Expert biases alone leave the router as it
  // is.
  const Architecture experts = read(edit(kGqaText, "  num_experts: 5\n", "  num_experts: 5\n  expert_bias: true\n"));
  CHECK(layer_parameters(experts, LayerKind::moe).experts == 5 * 86);
  CHECK(layer_parameters(experts, LayerKind::moe).router == 40);
  CHECK(layer_parameters(experts, LayerKind::dense).mlp_replicated == 0);
}

TEST_CASE("sinks, output bias, norms over all heads, LayerNorm and learned positions") {
  const std::string more = "  kv_channels: 6\n  sinks: true\n  output_bias: true\n  qk_layernorm: true\n";
  const Architecture arch = read(edit(kGqaText, "  kv_channels: 6\n", more));
  CHECK(layer_parameters(arch, LayerKind::dense).attention_sharded == 576 + 4);       // a sink a head
  CHECK(layer_parameters(arch, LayerKind::dense).attention_replicated == 8 + 2 * 6);  // bias h, norms over a head
  const Architecture wide = read(edit(kGqaText, "  kv_channels: 6\n", more + "  qk_layernorm_all_heads: true\n"));
  CHECK(layer_parameters(wide, LayerKind::dense).attention_replicated == 8 + 24 + 12);  // over 4 and 2 heads of 6
  const Architecture mla = read(edit(kMlaText, "  v_head_dim: 7\n", "  v_head_dim: 7\n  output_bias: true\n"));
  CHECK(layer_parameters(mla, LayerKind::moe).attention_replicated == 88 + 8);
  const Architecture old = read(std::string(kGqaText) + "normalization: LayerNorm\nlearned_positions: 32\n");
  const ModelParameters model = model_parameters(old);
  CHECK(layer_parameters(old, LayerKind::dense).norms == 32);
  CHECK(model.final_norm == 16);
  CHECK(model.positions == 32 * 8);
  CHECK(model.total() == model_parameters(read(kGqaText)).total() + 3 * 16 + 8 + 256);
  // Positions are looked up like the embedding.
  CHECK(active_parameters(old, ActiveConvention::everything) -
            active_parameters(old, ActiveConvention::without_embedding) ==
        80 + 256);
}

TEST_CASE("the vocabulary is padded to a multiple of its divisor times TP") {
  // GPT-2's 50257 tokens: 50304 at TP1 (393 x 128), 51200 at TP8 (50 x 1024).
  const Architecture gpt = read(edit(kGqaText, "vocab_size: 10", "vocab_size: 50257"));
  CHECK(padded_vocab(gpt, 1) == 50'304);
  CHECK(padded_vocab(gpt, 8) == 51'200);
  const Architecture whole = read(edit(kGqaText, "vocab_size: 10", "vocab_size: 50304"));
  CHECK(padded_vocab(whole, 1) == 50'304);
  const Architecture wide = read(std::string(kGqaText) + "make_vocab_size_divisible_by: 3232\n");
  CHECK(padded_vocab(wide, 1) == 3'232);
}

TEST_CASE("models whose published shapes are incomplete state what is counted") {
  // 60 x (2 x 4096^2 + 2 x 4096 x 1024 + 8192 + 4096 x 32 + 32 x 3 x 4096 x 14336) + 2 x 65536 x 4096 + 4096.
  CHECK(model_parameters(load("megascale-352b")).total() == 341'290'487'808);
  const ModelParameters pangu = model_parameters(load("pangu-ultra-moe"));
  CHECK(pangu.total() - pangu.mtp == 719'092'830'720);
  const Architecture v3 = load("deepseek-v3"), cut = load("deepseek-v3-14l");
  CHECK(cut.layer_count() == 14);
  CHECK(cut.moe_layer_ids().front() == 3);
  CHECK(cut.mtp_layers == 1);
  // 47 MoE layers fewer.
  CHECK(model_parameters(v3).total() - model_parameters(cut).total() ==
        47 * layer_parameters(v3, LayerKind::moe).total());
}
