// SPDX-License-Identifier: Apache-2.0
// The model that a text describes as its config.json, without any weights.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "models/models.h"

namespace lockstep {

absl::StatusOr<ModelDescription> describe_config(const std::string& config);
// With members replaced (RFC 7396: null removes), some ignored, and another context.
absl::StatusOr<ModelDescription> describe_config(const std::string& config,
                                                 const std::string& patch,
                                                 const std::vector<std::string>& ignored = {},
                                                 int64_t max_context = 0);

// The facts of a model and, in the words of config.json, what its graph computes: found by walking
// the graph, so that a test says what a key does, not where it is kept.
struct Described : Config {
  // By layer; windows and chunks are of the layers with attention alone.
  std::vector<bool> rotates;     // Whether q and k are rotated.
  std::vector<bool> attends;     // Whether it has attention.
  std::vector<bool> has_router;  // Whether it has experts.
  std::string kinds;  // A letter each: * attends, M recurs, E has experts alone, - none of these.
  std::vector<int64_t> windows, chunks;
  // The first layer with attention.
  bool qkv_bias = false, output_bias = false;
  bool normed_q = false;
  program::NormAttrs q_norm;    // Its attributes where it is within each head: head_dim is set.
  bool q_norm_by_head = false;  // A weight for each head.
  float attention_scale = 0, attention_cap = 0, qkv_clamp = 0;
  std::vector<float> slopes;
  program::RopeAttrs rotary;         // A layer's that sees all positions; another's, if none does.
  program::RopeTableAttrs rope;      // Its table.
  program::RopeAttrs window_rotary;  // A layer's with a window.
  program::RopeTableAttrs window_rope;
  program::PositionScaleAttrs query_scales;
  // The first norm, the first MLP, the halves of the first layer.
  bool mlp_bias = false;
  Function activation = Function::kNone;
  float norm_eps = 0, norm_plus = 0;
  bool layer_norm = false, norm_bias = false;
  int parallel_norms = 0;  // Norms of halves that read the same x: 1 for both, or 2; 0: serial.
  float kept_norm = 0;     // The stream goes on with a norm's result, times this; 0: as it was.
  program::RouteAttrs route;
  program::RecurrenceAttrs recurrence;
  int64_t taps = 0;
  // The ends.
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

// The shape of a tensor of the model; none: it has no such tensor.
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
