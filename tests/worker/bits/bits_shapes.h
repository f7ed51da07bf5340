// SPDX-License-Identifier: Apache-2.0
// Small models with odd shapes, and the types of their weights: the cases of bits_test.
#pragma once

namespace lockstep {

struct Shape {
  const char* name;
  int heads;
  int kv_heads;
  int head_dim;
  int ffn;
  int window;
  const char* patch = "{}";  // Changes to the config that give a model of another family.
};

// The storage of the weights: a type, or a scheme of small integers.
struct Kind {
  const char* name;
  const char* kernel;  // The kernel of most linears, without the suffix of its instruction set.
  bool quantized = false;
  bool cut_rows = true;  // Whether `reduce` may split rows.
};

// Each token uses three of the seven experts.
inline constexpr char kSevenExperts[] = R"({"architectures": ["MixtralForCausalLM"],
    "num_local_experts": 7, "num_experts_per_tok": 3})";

inline constexpr Shape kShapes[] = {
    {"FiveHeads", 5, 5, 16, 83, 0},    {"SixOverThree", 6, 3, 8, 100, 0},
    {"SixOverTwo", 6, 2, 24, 100, 20}, {"SevenOverOne", 7, 1, 10, 65, 0},
    {"WideHeads", 5, 1, 128, 96, 0},   {"Experts", 5, 5, 16, 83, 0, kSevenExperts},
};

inline constexpr Kind kKinds[] = {{"float32", "linear_f32_"}, {"bfloat16", "linear_bf16_"}};

// Shapes for quantized weights. In each, some rows are not a whole number of groups of 32 columns.
inline constexpr Shape kGroupShapes[] = {{"GroupsOfHeads", 6, 3, 32, 200, 0},
                                         {"WideHeads", 5, 1, 128, 96, 0},
                                         {"Experts", 6, 3, 32, 200, 0, kSevenExperts}};
inline constexpr Kind kGroupKinds[] = {{"q8", "linear_q8_", true},
                                       {"q4", "linear_q4_", true},
                                       {"q8c", "linear_q8c_", true, false},
                                       {"q4m", "linear_q4m_", true}};

}  // namespace lockstep
