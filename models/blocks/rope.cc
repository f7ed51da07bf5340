// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/rope.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "base/numbers/math.h"
#include "models/blocks/rope_kinds.h"

namespace lockstep {
namespace {

constexpr double kMinTheta = 1.0001;
constexpr double kMaxTheta = 1e15;

// Keys that any kind may have. The keys of mrope matter only for images, whose tokens have several
// positions; a text's token has one.
constexpr std::string_view kHarmlessKeys[] = {"rope_type", "type",          "rope_theta",
                                              kRotaryPart, "mrope_section", "mrope_interleaved"};

absl::Status check_keys(const RopeScaling& scaling, const RopeKind& kind) {
  Json unknown = Json::object();
  for (const auto& [key, value] : scaling.object->items()) {
    if (value.is_null() || std::ranges::find(kHarmlessKeys, key) != std::end(kHarmlessKeys)) {
      continue;
    }
    if (std::ranges::find(kind.keys, key) != kind.keys.end()) continue;
    if (key == kOriginalPositions && kind.name != "default") continue;
    unknown[key] = value;
  }
  const UnknownKeys all[] = {{scaling.key + ".", unknown}};
  const absl::Status status = refuse_unknown(all);
  if (status.ok()) return status;
  return invalid_argument("{} (of the kind \"{}\")", message_of(status), kind.name);
}

// Reads the scaling object (rope_scaling or rope_parameters), and keys that may be in or beside it.
absl::StatusOr<RopeScaling> find_scaling(const Json& json, const RopeFacts& facts) {
  static const Json kNothing = Json::object();
  RopeScaling scaling{.object = &kNothing,
                      .key = "rope_parameters",
                      .dim = facts.head_dim,
                      .theta = facts.theta,
                      .max_positions = facts.max_positions,
                      .original_positions = facts.max_positions,
                      .part = facts.part == 0 ? 1 : facts.part,
                      .yarn_is_longrope = facts.yarn_is_longrope,
                      .fixed_alpha = facts.fixed_alpha,
                      .ntk_length = facts.ntk_length};
  for (const std::string key : {"rope_scaling", "rope_parameters"}) {
    if (!json.contains(key) || json[key].is_null()) continue;
    if (!json[key].is_object()) {
      return invalid_argument("{}: must be an object, found {}", key, describe(json[key]));
    }
    if (scaling.object != &kNothing) {
      if (*scaling.object == json[key]) continue;
      return invalid_argument(
          "rope_scaling and rope_parameters are both there and differ: keep one");
    }
    scaling.object = &json[key];
    scaling.key = key + facts.member;
  }
  ASSIGN_OR_RETURN(scaling.part, get_double(json, kRotaryPart, scaling.part));
  ASSIGN_OR_RETURN(const double theta, get_double(json, "rope_theta", scaling.theta));
  if (theta < kMinTheta || theta > kMaxTheta) {
    return invalid_argument("rope_theta: must be a number from {} to {}, found {}", kMinTheta,
                            kMaxTheta, theta);
  }
  ASSIGN_OR_RETURN(scaling.theta, scaling.number("rope_theta", kMinTheta, kMaxTheta, theta));
  ASSIGN_OR_RETURN(const double inner, scaling.number(kOriginalPositions, 1, 1 << 24,
                                                      static_cast<double>(facts.max_positions)));
  ASSIGN_OR_RETURN(scaling.original_positions,
                   get_int(json, kOriginalPositions, static_cast<int64_t>(inner)));
  if (scaling.original_positions < 1 || scaling.original_positions > 1 << 24) {
    return invalid_argument("{}: must be an integer from 1 to {}, found {}", kOriginalPositions,
                            1 << 24, scaling.original_positions);
  }
  return scaling;
}

// The number of rotated columns of a head; they are its first columns.
absl::StatusOr<int64_t> rotary_dim(const RopeScaling& scaling, const RopeFacts& facts) {
  if (facts.dim != 0 && facts.dim % 2 != 0) {
    return invalid_argument("rotary_dim: must be an even number, found {}", facts.dim);
  }
  if (facts.dim != 0) return facts.dim;
  ASSIGN_OR_RETURN(const double part, scaling.number(kRotaryPart, 0, 1, scaling.part));
  if (facts.part == 0 && part != 1) {
    return invalid_argument("{}: {} is not supported here; supported: 1", kRotaryPart, part);
  }
  const auto dim = static_cast<int64_t>(static_cast<double>(facts.head_dim) * part);
  if (dim < 2 || dim % 2 != 0 || part > 1) {
    return invalid_argument("{}: {} of a head_dim of {}: must be an even number of columns",
                            kRotaryPart, part, facts.head_dim);
  }
  return dim;
}

}  // namespace

absl::StatusOr<RopeConfig> parse_rope(const Json& json, const RopeFacts& facts) {
  if (facts.head_dim % 2 != 0) {
    return invalid_argument("head_dim: must be an even number for rotary embeddings, found {}",
                            facts.head_dim);
  }
  ASSIGN_OR_RETURN(RopeScaling scaling, find_scaling(json, facts));
  ASSIGN_OR_RETURN(const RopeKind* kind, find_rope_kind(scaling));
  if (!kind->whole_heads) {
    ASSIGN_OR_RETURN(scaling.dim, rotary_dim(scaling, facts));
  }
  RETURN_IF_ERROR(check_keys(scaling, *kind));
  RopeConfig out;
  out.rope.head_dim = facts.head_dim;
  out.rope.rotary_dim = scaling.dim;
  out.rope.interleaved = facts.interleaved;
  out.rope.table.set_factor(1);
  RETURN_IF_ERROR(kind->apply(scaling, out));
  return out;
}

namespace {

constexpr const char* kKeys[] = {"rope_theta", "rope_scaling", "rope_parameters",
                                 "partial_rotary_factor", "original_max_position_embeddings"};

// The scaling of queries by position: rope_parameters.llama_4_scaling_beta. The key is no part of
// rotary scaling, so it is removed from the object.
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
  rope.erase("max_position_embeddings");  // A copy of the top level's; nothing reads it.
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
  if (facts.scales_queries) {
    queries = take_query_scaling(keys, object);
    keys.ignore("llama_4_scaling_beta");  // The reference ignores it at the top level.
  }
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
    keys.fail(key, "must be at least 1/{} of the {} positions, found {}", kMaxScales, positions,
              length);
    return scales;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double scale = 1 + beta * exact_log(static_cast<double>(1 + i));
    scales.scales.push_back(static_cast<float>(scale));
  }
  return scales;
}

}  // namespace lockstep
