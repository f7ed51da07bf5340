// SPDX-License-Identifier: Apache-2.0
// The kinds of rotary scaling, with the formulas of transformers 5 (modeling_rope_utils.py),
// computed in double by functions that give the same bits on every machine.
#include "models/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/math.h"

namespace lockstep {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLeastTheta = 1.0001;
constexpr double kMostTheta = 1e15;
constexpr std::string_view kPart = "partial_rotary_factor";

struct Scaling {
  const Json* object;  // rope_scaling or rope_parameters, or an empty object.
  std::string key;     // Its key, for messages.
  int64_t dim;
  double theta;
  int64_t max_positions;
  int64_t original_positions;
  double part;  // partial_rotary_factor beside the object, or the family's.
  bool yarn_is_longrope;
  bool fixed_alpha;
  int64_t ntk_length;

  absl::StatusOr<double> number(std::string_view name, double low, double high,
                                std::optional<double> fallback = std::nullopt) const {
    const absl::StatusOr<double> value = get_double(*object, name, fallback);
    if (!value.ok()) return invalid_argument("{}.{}", key, message_of(value.status()));
    if (*value < low || *value > high) {
      return invalid_argument("{}.{}: wanted a number from {} to {}, found {}", key, name, low,
                              high, *value);
    }
    return *value;
  }
};

std::vector<double> plain_frequencies(int64_t dim, double theta) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(dim);
    frequencies.push_back(1.0 / exact_pow(theta, exponent));
  }
  return frequencies;
}

void set_frequencies(const std::vector<double>& frequencies, RopeConfig& out) {
  for (double frequency : frequencies) {
    out.rope.table.add_inv_freq(static_cast<float>(frequency));
  }
}

// Of what a base is multiplied by; `key` asks for it.
absl::StatusOr<double> ntk_exponent(const Scaling& scaling, std::string_view key) {
  const double dim = static_cast<double>(scaling.dim);
  if (dim > 2) return dim / (dim - 2);
  return invalid_argument("{}: wanted a head_dim above 2, found {}", key, scaling.dim);
}

// A prompt of up to ntk_length, 2, 4, ... times as many tokens has its base multiplied by a power
// of 1, 3, 7, ...
absl::Status ntk_by_prompt(const Scaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double exponent, ntk_exponent(scaling, "use_dynamic_ntk"));
  int64_t length = scaling.ntk_length;
  for (double alpha = 1;; alpha = 2 * alpha + 1, length *= 2) {
    const double theta = scaling.theta * exact_pow(alpha, exponent);
    set_frequencies(plain_frequencies(scaling.dim, theta), out);
    if (length >= scaling.max_positions) return absl::OkStatus();
    out.rope.table.add_lengths(length);
  }
}

absl::Status plain(const Scaling& scaling, RopeConfig& out) {
  if (scaling.ntk_length > 0) return ntk_by_prompt(scaling, out);
  set_frequencies(plain_frequencies(scaling.dim, scaling.theta), out);
  return absl::OkStatus();
}

absl::Status linear(const Scaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1, 1e6));
  std::vector<double> frequencies = plain_frequencies(scaling.dim, scaling.theta);
  for (double& frequency : frequencies) frequency /= factor;
  set_frequencies(frequencies, out);
  out.reach = factor;
  return absl::OkStatus();
}

// The kernel computes the frequencies past max_positions: a function of the position alone.
absl::Status dynamic(const Scaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1, 1e6));
  if (scaling.dim <= 2) {
    return invalid_argument("{}: dynamic scaling wants a head_dim above 2, found {}", scaling.key,
                            scaling.dim);
  }
  set_frequencies(plain_frequencies(scaling.dim, scaling.theta), out);
  out.rope.table.set_dynamic_length(scaling.max_positions);
  out.rope.table.set_dynamic_factor(static_cast<float>(factor));
  out.rope.table.set_theta(static_cast<float>(scaling.theta));
  out.reach = factor;
  return absl::OkStatus();
}

// Such files have a factor of 1, at which the keys of yarn that they have too mean nothing.
absl::Status fixed_alpha(const Scaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double exponent, ntk_exponent(scaling, scaling.key + ".alpha"));
  ASSIGN_OR_RETURN(const double alpha, scaling.number("alpha", 1, 1e6));
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 0, 1e6, 1));
  if (factor != 1) {
    return invalid_argument("{}.factor: {} is not supported beside alpha; supported: 1",
                            scaling.key, factor);
  }
  set_frequencies(plain_frequencies(scaling.dim, scaling.theta * exact_pow(alpha, exponent)), out);
  return absl::OkStatus();
}

absl::Status llama3(const Scaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1, 1e6));
  ASSIGN_OR_RETURN(const double low, scaling.number("low_freq_factor", 1e-6, 1e6));
  ASSIGN_OR_RETURN(const double high, scaling.number("high_freq_factor", 1e-6, 1e6));
  if (high < low) {
    return invalid_argument("{}.high_freq_factor: wanted low_freq_factor ({}) or more, found {}",
                            scaling.key, low, high);
  }
  const double length = static_cast<double>(scaling.original_positions);
  std::vector<double> frequencies = plain_frequencies(scaling.dim, scaling.theta);
  for (double& frequency : frequencies) {
    const double wavelength = 2 * kPi / frequency;
    if (wavelength > length / low) {
      frequency /= factor;
    } else if (high > low && wavelength >= length / high) {
      const double smooth = (length / wavelength - low) / (high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
  set_frequencies(frequencies, out);
  return absl::OkStatus();
}

// YaRN (arXiv 2309.00071): frequencies that turn often stay, slow ones are interpolated.
struct Yarn {
  double factor, beta_fast, beta_slow, attention_factor;
  bool truncate;
};

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * exact_log(factor) + 1.0;
}

absl::StatusOr<Yarn> parse_yarn(const Scaling& scaling) {
  Yarn yarn;
  const double implied =
      static_cast<double>(scaling.max_positions) / static_cast<double>(scaling.original_positions);
  ASSIGN_OR_RETURN(yarn.factor, scaling.number("factor", 1e-6, 1e6, implied));
  ASSIGN_OR_RETURN(yarn.beta_fast, scaling.number("beta_fast", 0, 1e6, 32));
  ASSIGN_OR_RETURN(yarn.beta_slow, scaling.number("beta_slow", 0, 1e6, 1));
  if (yarn.beta_fast == 0) yarn.beta_fast = 32;  // Zero reads as missing, as in the reference.
  if (yarn.beta_slow == 0) yarn.beta_slow = 1;
  ASSIGN_OR_RETURN(const double mscale, scaling.number("mscale", 0, 1e3, 0));
  ASSIGN_OR_RETURN(const double mscale_all_dim, scaling.number("mscale_all_dim", 0, 1e3, 0));
  const double inferred =
      mscale != 0 && mscale_all_dim != 0
          ? yarn_scale(yarn.factor, mscale) / yarn_scale(yarn.factor, mscale_all_dim)
          : yarn_scale(yarn.factor, 1);
  ASSIGN_OR_RETURN(yarn.attention_factor, scaling.number("attention_factor", 0, 1e3, inferred));
  const absl::StatusOr<bool> truncate = get_bool(*scaling.object, "truncate", true);
  if (!truncate.ok()) return invalid_argument("{}.{}", scaling.key, message_of(truncate.status()));
  yarn.truncate = *truncate;
  return yarn;
}

absl::Status yarn(const Scaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const Yarn yarn, parse_yarn(scaling));
  const double dim = static_cast<double>(scaling.dim);
  const auto correction = [&](double rotations) {
    const double length = static_cast<double>(scaling.original_positions);
    return dim * exact_log(length / (rotations * 2 * kPi)) / (2 * exact_log(scaling.theta));
  };
  double low = correction(yarn.beta_fast);
  double high = correction(yarn.beta_slow);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;  // As the reference avoids the division by zero.

  std::vector<double> frequencies = plain_frequencies(scaling.dim, scaling.theta);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / yarn.factor * ramp + frequencies[i] * (1 - ramp);
  }
  set_frequencies(frequencies, out);
  out.rope.table.set_factor(static_cast<float>(yarn.attention_factor));
  const double reach = yarn.factor * static_cast<double>(scaling.original_positions) /
                       static_cast<double>(scaling.max_positions);
  out.reach = std::max(1.0, reach);
  return absl::OkStatus();
}

// What each frequency is divided by.
absl::Status add_divided(const Scaling& scaling, const char* name, RopeConfig& out) {
  const Json found = scaling.object->value(name, Json());
  const auto wanted = static_cast<size_t>(scaling.dim / 2);
  const auto divides = [](const Json& factor) {
    return factor.is_number() && factor.get<double>() >= 0.1 && factor.get<double>() <= 1e6;
  };
  if (!found.is_array() || found.size() != wanted ||
      !std::all_of(found.begin(), found.end(), divides)) {
    return invalid_argument("{}.{}: wanted a list of {} numbers from 0.1 to 1e6, found {}",
                            scaling.key, name, wanted, describe(found));
  }
  std::vector<double> frequencies = plain_frequencies(scaling.dim, scaling.theta);
  for (size_t i = 0; i < wanted; ++i) frequencies[i] /= double{found[i].get<float>()};
  set_frequencies(frequencies, out);
  return absl::OkStatus();
}

// LongRoPE (arXiv 2402.13753): a factor for each frequency, others in a sequence that is longer
// than the original positions, for all of its tokens.
absl::Status longrope(const Scaling& scaling, RopeConfig& out) {
  const double original = static_cast<double>(scaling.original_positions);
  RETURN_IF_ERROR(add_divided(scaling, "short_factor", out));
  if (scaling.original_positions < scaling.max_positions) {
    RETURN_IF_ERROR(add_divided(scaling, "long_factor", out));
    out.rope.table.add_lengths(scaling.original_positions);
  }
  const double implied = static_cast<double>(scaling.max_positions) / original;
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1e-6, 1e6, implied));
  const bool scales = factor > 1 && scaling.original_positions > 1;
  const double inferred = scales ? std::sqrt(1 + exact_log(factor) / exact_log(original)) : 1;
  ASSIGN_OR_RETURN(const double attention, scaling.number("attention_factor", 0, 1e3, inferred));
  out.rope.table.set_factor(static_cast<float>(attention));
  return absl::OkStatus();
}

// Gemma 4's: of a head's pairs the first part turns, with the frequencies that all would have.
absl::Status proportional(const Scaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1, 1e6, 1));
  ASSIGN_OR_RETURN(const double part, scaling.number(kPart, 0, 1, scaling.part));
  const double turned = std::floor(part * static_cast<double>(scaling.dim) / 2);
  std::vector<double> frequencies = plain_frequencies(scaling.dim, scaling.theta);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = static_cast<double>(i) < turned ? frequencies[i] / factor : 0;
  }
  set_frequencies(frequencies, out);
  out.reach = factor;
  return absl::OkStatus();
}

struct Kind {
  std::string_view name;
  absl::Status (*apply)(const Scaling& scaling, RopeConfig& out);
  std::array<std::string_view, 7> keys;  // Besides rope_type, type and rope_theta.
  bool whole_heads = false;              // Which part of a head turns is the kind's own affair.
};
constexpr std::string_view kOriginal = "original_max_position_embeddings";
constexpr Kind kKinds[] = {
    {"default", plain, {}},
    {"linear", linear, {"factor"}},
    {"dynamic", dynamic, {"factor"}},
    {"llama3", llama3, {"factor", "low_freq_factor", "high_freq_factor", kOriginal}},
    {"yarn",
     yarn,
     {"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
      "truncate"}},
    {"longrope", longrope, {"short_factor", "long_factor", "factor", "attention_factor"}},
    {"proportional", proportional, {"factor"}, /*whole_heads=*/true},
};
constexpr Kind kFixedAlpha = {
    "dynamic",
    fixed_alpha,
    {"alpha", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}};

absl::StatusOr<const Kind*> find_kind(const Scaling& scaling) {
  for (const char* key : {"rope_type", "type"}) {
    absl::StatusOr<std::string> name = get_string(*scaling.object, key, "");
    if (!name.ok()) return invalid_argument("{}.{}", scaling.key, message_of(name.status()));
    if (name->empty()) continue;
    if (scaling.yarn_is_longrope && (*name == "su" || *name == "yarn")) name = "longrope";
    const bool alpha = scaling.fixed_alpha && !scaling.object->value("alpha", Json()).is_null();
    if (alpha && *name == "dynamic") return &kFixedAlpha;
    std::string supported;
    for (const Kind& kind : kKinds) {
      if (kind.name == *name) return &kind;
      supported += supported.empty() ? kind.name : fmt::format(", {}", kind.name);
    }
    return invalid_argument("{}.{}: \"{}\" is not supported; supported: {}", scaling.key, key,
                            printable(*name), supported);
  }
  return &kKinds[0];
}

absl::Status check_keys(const Scaling& scaling, const Kind& kind) {
  for (const auto& [key, value] : scaling.object->items()) {
    if (value.is_null() || key == "rope_type" || key == "type" || key == "rope_theta") continue;
    if (std::find(kind.keys.begin(), kind.keys.end(), key) != kind.keys.end()) continue;
    if (key == kOriginal && kind.name != "default") continue;
    if (key == kPart) continue;
    return invalid_argument(
        "{0}.{1}: unknown for the kind \"{2}\" (found {3}); --ignore-config {0}.{1} runs without "
        "it",
        scaling.key, printable(key), kind.name, describe(value));
  }
  return absl::OkStatus();
}

// The object and what both forms say beside it.
absl::StatusOr<Scaling> find_scaling(const Json& json, const RopeFacts& facts) {
  static const Json kNothing = Json::object();
  Scaling scaling{.object = &kNothing,
                  .key = "rope_parameters",
                  .dim = facts.head_dim,
                  .theta = facts.theta,
                  .max_positions = facts.max_positions,
                  .original_positions = facts.max_positions,
                  .part = facts.part == 0 ? 1 : facts.part,
                  .yarn_is_longrope = facts.yarn_is_longrope,
                  .fixed_alpha = facts.fixed_alpha,
                  .ntk_length = facts.ntk_length};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!json.contains(key) || json[key].is_null()) continue;
    if (!json[key].is_object()) {
      return invalid_argument("{}: wanted an object, found {}", key, describe(json[key]));
    }
    if (scaling.object != &kNothing) {
      return invalid_argument("rope_scaling and rope_parameters are both there: keep one");
    }
    scaling.object = &json[key];
    scaling.key = key;
  }
  ASSIGN_OR_RETURN(scaling.part, get_double(json, kPart, scaling.part));
  ASSIGN_OR_RETURN(const double theta, get_double(json, "rope_theta", scaling.theta));
  if (theta < kLeastTheta || theta > kMostTheta) {
    return invalid_argument("rope_theta: wanted a number from {} to {}, found {}", kLeastTheta,
                            kMostTheta, theta);
  }
  ASSIGN_OR_RETURN(scaling.theta, scaling.number("rope_theta", kLeastTheta, kMostTheta, theta));
  ASSIGN_OR_RETURN(const double inner,
                   scaling.number(kOriginal, 1, 1 << 24, static_cast<double>(facts.max_positions)));
  ASSIGN_OR_RETURN(scaling.original_positions,
                   get_int(json, kOriginal, static_cast<int64_t>(inner)));
  if (scaling.original_positions < 1 || scaling.original_positions > 1 << 24) {
    return invalid_argument("{}: wanted an integer from 1 to {}, found {}", kOriginal, 1 << 24,
                            scaling.original_positions);
  }
  return scaling;
}

// The columns of a head that turn: the first ones.
absl::StatusOr<int64_t> rotary_dim(const Scaling& scaling, const RopeFacts& facts) {
  if (facts.dim != 0 && facts.dim % 2 != 0) {
    return invalid_argument("rotary_dim: wanted an even number, found {}", facts.dim);
  }
  if (facts.dim != 0) return facts.dim;
  ASSIGN_OR_RETURN(const double part, scaling.number(kPart, 0, 1, scaling.part));
  if (facts.part == 0 && part != 1) {
    return invalid_argument("{}: {} is not supported here; supported: 1", kPart, part);
  }
  const auto dim = static_cast<int64_t>(static_cast<double>(facts.head_dim) * part);
  if (dim < 2 || dim % 2 != 0 || part > 1) {
    return invalid_argument("{}: {} of a head_dim of {}: wanted an even number of columns", kPart,
                            part, facts.head_dim);
  }
  return dim;
}

}  // namespace

absl::StatusOr<RopeConfig> parse_rope(const Json& json, const RopeFacts& facts) {
  if (facts.head_dim % 2 != 0) {
    return invalid_argument("head_dim: wanted an even number for rotary embeddings, found {}",
                            facts.head_dim);
  }
  ASSIGN_OR_RETURN(Scaling scaling, find_scaling(json, facts));
  ASSIGN_OR_RETURN(const Kind* kind, find_kind(scaling));
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

}  // namespace lockstep
