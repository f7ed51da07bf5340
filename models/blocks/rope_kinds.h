// SPDX-License-Identifier: Apache-2.0
// The kinds of rotary scaling, named as in rope_type.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/status.h"
#include "models/blocks/rope.h"

namespace lockstep {

// Keys that may be in the scaling object or beside it.
inline constexpr std::string_view kRotaryPart = "partial_rotary_factor";
inline constexpr std::string_view kOriginalPositions = "original_max_position_embeddings";

// The rotary scaling of a config.json: the facts that every kind needs, already checked.
struct RopeScaling {
  const Json* object;  // rope_scaling or rope_parameters, or an empty object.
  std::string key;     // Its key, for messages.
  int64_t dim;
  double theta;
  int64_t max_positions;
  int64_t original_positions;
  double part;  // partial_rotary_factor if it is beside the object, else the family's value.
  // See RopeFacts.
  bool yarn_is_longrope;
  bool fixed_alpha;
  int64_t ntk_length;

  // A number of the object, from `low` to `high`. Errors name the key.
  absl::StatusOr<double> number(std::string_view name, double low, double high,
                                std::optional<double> fallback = std::nullopt) const {
    const absl::StatusOr<double> value = get_double(*object, name, fallback);
    if (!value.ok()) return invalid_argument("{}.{}", key, message_of(value.status()));
    if (*value < low || *value > high) {
      return invalid_argument("{}.{}: must be a number from {} to {}, found {}", key, name, low,
                              high, *value);
    }
    return *value;
  }
};

struct RopeKind {
  std::string_view name;
  // Sets frequencies, factor and reach.
  absl::Status (*apply)(const RopeScaling& scaling, RopeConfig& out);
  std::array<std::string_view, 8> keys;  // Its keys besides rope_type, type and rope_theta.
  bool whole_heads = false;              // The kind itself decides which part of a head is rotated.
};

// The kind that rope_type names; "default" without a name. Errors list the supported kinds.
absl::StatusOr<const RopeKind*> find_rope_kind(const RopeScaling& scaling);

}  // namespace lockstep
