// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/checkpoints.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/numbers/float16.h"
#include "base/source_dir.h"
#include "checkpoint/checkpoint_writer.h"

namespace lockstep::faults {
namespace {

constexpr int64_t kHidden = 512, kFfn = 1536, kLayers = 12, kVocab = 3072;
constexpr int64_t kHeads = 8, kKvHeads = 4, kHeadDim = 64;

constexpr char kConfig[] = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
  "vocab_size": 3072, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 12,
  "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "hidden_act": "silu",
  "max_position_embeddings": 1024, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 1
})";

std::vector<TensorSpec> tensors() {
  std::vector<TensorSpec> all;
  const auto add = [&](std::string name, std::vector<int64_t> shape) {
    all.push_back({std::move(name), "BF16", std::move(shape)});
  };
  add("model.embed_tokens.weight", {kVocab, kHidden});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", {kHidden});
    add(prefix + "self_attn.q_proj.weight", {kHeads * kHeadDim, kHidden});
    add(prefix + "self_attn.k_proj.weight", {kKvHeads * kHeadDim, kHidden});
    add(prefix + "self_attn.v_proj.weight", {kKvHeads * kHeadDim, kHidden});
    add(prefix + "self_attn.o_proj.weight", {kHidden, kHeads * kHeadDim});
    add(prefix + "post_attention_layernorm.weight", {kHidden});
    add(prefix + "mlp.gate_proj.weight", {kFfn, kHidden});
    add(prefix + "mlp.up_proj.weight", {kFfn, kHidden});
    add(prefix + "mlp.down_proj.weight", {kHidden, kFfn});
  }
  add("model.norm.weight", {kHidden});
  add("lm_head.weight", {kVocab, kHidden});
  return all;
}

// The bytes of model.safetensors. Norm weights are 1. The other weights are so small that a
// linear's outputs are about as large as its inputs.
std::string file_of(uint32_t seed) {
  const std::vector<TensorSpec> specs = tensors();
  std::string bytes = safetensors_header(specs);
  std::mt19937 random(seed);
  for (const TensorSpec& spec : specs) {
    const bool norm = spec.shape.size() == 1;
    const float spread = std::sqrt(3.0f / static_cast<float>(spec.shape.back()));
    const auto count = static_cast<size_t>(stored_bytes(spec)) / sizeof(uint16_t);
    std::vector<uint16_t> values(count, float_to_bf16(1));
    for (size_t i = 0; i < count && !norm; ++i) {
      values[i] = float_to_bf16(spread * (static_cast<float>(random()) * 0x1p-31f - 1));
    }
    bytes.append(reinterpret_cast<const char*>(values.data()), count * sizeof(uint16_t));
  }
  return bytes;
}

}  // namespace

Checkpoints::Checkpoints(std::string shape) : shape_(std::move(shape)) {
  if (!shape_.empty()) return;
  const std::filesystem::path demo = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "demo";
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy_file(demo / name, std::filesystem::path(folder()) / name);
  }
  folder_.write("config.json", kConfig);
  for (int variant = 0; variant < kVariants; ++variant) {
    bytes_[variant] = file_of(static_cast<uint32_t>(variant) + 1);
  }
  put(0, Rewrite::kRename);
}

void Checkpoints::put(int variant, Rewrite how) {
  LOCKSTEP_CHECK(variant < variants());
  if (!shape_.empty()) return;
  const std::string name = "model.safetensors";
  if (how == Rewrite::kOverwrite) {
    folder_.write(name, bytes_[variant]);
  } else {
    const std::string path = folder_.write("next", bytes_[variant]);
    std::filesystem::rename(path, folder() + "/" + name);
  }
  variant_ = variant;
}

}  // namespace lockstep::faults
