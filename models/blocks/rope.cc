// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/rope.h"

#include <cmath>

#include "base/math.h"

namespace lockstep {
namespace {

constexpr const char* kKeys[] = {"rope_theta", "rope_scaling", "rope_parameters",
                                 "partial_rotary_factor", "original_max_position_embeddings"};

// How queries are scaled by their position: rope_parameters.llama_4_scaling_beta, which is no
// rotary scaling and is taken out.
struct QueryScaling {
  double beta = 0;
  int64_t length = 0;
};
QueryScaling take_query_scaling(Keys& keys, Json& rope) {
  QueryScaling scaling;
  if (!rope.is_object()) return scaling;
  keys.inside("rope_parameters", [&](Keys& members) {
    scaling.beta = members.number("llama_4_scaling_beta", 0, 1000);
    scaling.length = members.count("original_max_position_embeddings", kMaxPositions);
    members.ignore("*");
  });
  rope.erase("llama_4_scaling_beta");
  rope.erase("max_position_embeddings");  // Repeated there, and read by nobody.
  return scaling;
}

Json rope_keys(Keys& keys) {
  Json found = Json::object();
  for (const char* key : kKeys) {
    if (keys.has(key)) found[key] = keys.json(key);
  }
  return found;
}

RopeConfig parse(Keys& keys, const Json& json, const RopeFacts& facts) {
  absl::StatusOr<RopeConfig> rope = parse_rope(json, facts);
  keys.fail(rope.status());
  return rope.ok() ? *std::move(rope) : RopeConfig();
}

}  // namespace

Ropes read_rope(Keys& keys, const Sizes& sizes, RopeFacts facts) {
  Json json = rope_keys(keys), of_windows = Json::object();
  facts.max_positions = sizes.positions;
  RopeFacts window = facts;
  window.theta = facts.window_theta;
  window.head_dim = sizes.head_dim;
  if (facts.head_dim == 0) facts.head_dim = sizes.head_dim;
  if (facts.reads_dim && !keys.is_missing("rotary_dim")) {
    facts.dim = keys.count("rotary_dim", sizes.head_dim, sizes.head_dim);
  }
  QueryScaling queries;
  Json& object = json["rope_parameters"];
  if (facts.scales_queries) queries = take_query_scaling(keys, object);
  if (facts.whole_heads && object.is_object()) object.erase("partial_rotary_factor");
  if (facts.window_theta != 0 && object.is_object() && object.contains("full_attention")) {
    of_windows["rope_parameters"] = object.value("sliding_attention", Json());
    object = Json(object["full_attention"]);
    facts.member = ".full_attention";
    window.member = ".sliding_attention";
  }
  RopeConfig rope = parse(keys, json, facts);
  Ropes ropes{.all = rope.rope, .window = rope.rope, .reach = rope.reach};
  if (facts.window_theta != 0) ropes.window = parse(keys, of_windows, window).rope;
  if (queries.length > 0) {
    const double positions = static_cast<double>(sizes.positions) * ropes.reach;
    ropes.query_scales = scales_of_log(keys, "rope_parameters.original_max_position_embeddings",
                                       queries.beta, queries.length, 0, positions);
  }
  return ropes;
}

PositionScales scales_of_log(Keys& keys, std::string_view key, double beta, int64_t length,
                             int64_t offset, double positions) {
  constexpr int64_t kMaxScales = 1 << 16;
  const double last = positions + static_cast<double>(offset);
  const auto count = static_cast<int64_t>(std::ceil(last / static_cast<double>(length)));
  PositionScales scales{.length = length, .offset = offset};
  if (count > kMaxScales) {
    keys.fail(key, "must be at least a part in {} of the {} positions, found {}", kMaxScales,
              positions, length);
    return scales;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double scale = 1 + beta * exact_log(static_cast<double>(1 + i));
    scales.scales.push_back(static_cast<float>(scale));
  }
  return scales;
}

}  // namespace lockstep
