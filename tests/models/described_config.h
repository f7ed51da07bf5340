// SPDX-License-Identifier: Apache-2.0
// The model that a config.json as text describes, without any weights.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "models/models.h"

namespace lockstep {

absl::StatusOr<ModelDescription> describe_config(const std::string& config);
// The same after a merge with the JSON object `patch` (RFC 7396: null removes a member).
// `max_context` 0: the config's own context.
absl::StatusOr<ModelDescription> describe_config(const std::string& config,
                                                 const std::string& patch,
                                                 const std::vector<std::string>& ignored = {},
                                                 int64_t max_context = 0);

// The facts of a model and, in the terms of config.json, what its graph computes. They are found by
// walking the graph, so that a test checks a key's effect and not where it is stored.
struct Described : Config {
  // By layer; windows and chunks have entries only for layers with attention.
  std::vector<bool> rotates;     // Whether q and k are rotated.
  std::vector<bool> attends;     // Whether the layer has attention.
  std::vector<bool> has_router;  // Whether the layer has experts.
  std::string kinds;  // A letter per layer: * attention, M recurrence, E experts, - none.
  std::vector<int64_t> windows, chunks;
  // Facts of the first layer with attention.
  bool qkv_bias = false, output_bias = false;
  bool normed_q = false;
  program::NormAttrs q_norm;    // The norm of q: within each head if head_dim is set.
  bool q_norm_by_head = false;  // Each head has its own weight.
  float attention_scale = 0, attention_cap = 0, qkv_clamp = 0;
  std::vector<float> slopes;
  program::RopeAttrs rotary;         // From a layer without a window, else from the first layer.
  program::RopeTableAttrs rope;      // The table of `rotary`.
  program::RopeAttrs window_rotary;  // From a layer with a window.
  program::RopeTableAttrs window_rope;
  program::PositionScaleAttrs query_scales;
  // Facts of the first norm, the first MLP, and the halves (attention and MLP) of the first layer.
  bool mlp_bias = false;
  Function activation = Function::kNone;
  float norm_eps = 0, norm_plus = 0;
  bool layer_norm = false, norm_bias = false;
  int parallel_norms = 0;     // Norms of parallel halves: 1 for both, or 2; 0: halves are serial.
  float normed_residual = 0;  // The residual is a norm's output times this; 0: the norm's input.
  program::RouteAttrs route;
  program::RecurrenceAttrs recurrence;
  int64_t taps = 0;
  // Facts of the embeddings and of the head.
  int64_t position_rows = 0, position_offset = 0;  // The table of learned positions.
  bool head_bias = false, head_unit_rows = false;
  float embedding_multiplier = 1, logits_multiplier = 1, logits_cap = 0;
};

Described described(const ModelDescription& model);

template <typename... Texts>
Described config_of(const Texts&... texts) {
  const absl::StatusOr<ModelDescription> model = describe_config(texts...);
  EXPECT_TRUE(model.ok()) << message_of(model.status());
  return model.ok() ? described(*model) : Described();
}

// The shape of a tensor of the model; empty: it has no such tensor.
std::vector<int64_t> shape_of(const ModelDescription& model, const std::string& tensor);
template <typename... Texts>
std::vector<int64_t> tensor_of(const std::string& tensor, const Texts&... texts) {
  const absl::StatusOr<ModelDescription> model = describe_config(texts...);
  EXPECT_TRUE(model.ok()) << message_of(model.status());
  return model.ok() ? shape_of(*model, tensor) : std::vector<int64_t>();
}

void expect_refused(const absl::StatusOr<ModelDescription>& model, const std::string& says);
void expect_refused(const std::string& config, const std::string& says);
void expect_refused(const std::string& config, const std::string& patch, const std::string& says);

}  // namespace lockstep
