// SPDX-License-Identifier: Apache-2.0
// The formulas of transformers 5 (modeling_rope_utils.py), computed in double by functions that
// give the same bits on every machine.
#include "models/blocks/rope_kinds.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/numbers/math.h"

namespace lockstep {
namespace {

constexpr double kPi = 3.14159265358979323846;

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

// The exponent of the base's multiplier; errors name `key`.
absl::StatusOr<double> ntk_exponent(const RopeScaling& scaling, std::string_view key) {
  const double dim = static_cast<double>(scaling.dim);
  if (dim > 2) return dim / (dim - 2);
  return invalid_argument("{}: must be a head_dim above 2, found {}", key, scaling.dim);
}

// For a prompt of up to 1, 2, 4, ... times ntk_length tokens, the base is multiplied by a power of
// 1, 3, 7, ...; the exponent is ntk_exponent().
absl::Status ntk_by_prompt(const RopeScaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double exponent, ntk_exponent(scaling, "use_dynamic_ntk"));
  int64_t length = scaling.ntk_length;
  for (double alpha = 1;; alpha = 2 * alpha + 1, length *= 2) {
    const double theta = scaling.theta * exact_pow(alpha, exponent);
    set_frequencies(plain_frequencies(scaling.dim, theta), out);
    if (length >= scaling.max_positions) return absl::OkStatus();
    out.rope.table.add_lengths(length);
  }
}

absl::Status plain(const RopeScaling& scaling, RopeConfig& out) {
  if (scaling.ntk_length > 0) return ntk_by_prompt(scaling, out);
  set_frequencies(plain_frequencies(scaling.dim, scaling.theta), out);
  return absl::OkStatus();
}

absl::Status linear(const RopeScaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1, 1e6));
  std::vector<double> frequencies = plain_frequencies(scaling.dim, scaling.theta);
  for (double& frequency : frequencies) frequency /= factor;
  set_frequencies(frequencies, out);
  out.reach = factor;
  return absl::OkStatus();
}

// The kernel computes the frequencies beyond max_positions, from the position alone.
absl::Status dynamic(const RopeScaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1, 1e6));
  if (scaling.dim <= 2) {
    return invalid_argument("{}: dynamic scaling needs a head_dim above 2, found {}", scaling.key,
                            scaling.dim);
  }
  set_frequencies(plain_frequencies(scaling.dim, scaling.theta), out);
  out.rope.table.set_dynamic_length(scaling.max_positions);
  out.rope.table.set_dynamic_factor(static_cast<float>(factor));
  out.rope.table.set_theta(static_cast<float>(scaling.theta));
  out.reach = factor;
  return absl::OkStatus();
}

// Files with an alpha have a factor of 1, so their keys of YaRN have no effect.
absl::Status fixed_alpha(const RopeScaling& scaling, RopeConfig& out) {
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

absl::Status llama3(const RopeScaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1, 1e6));
  ASSIGN_OR_RETURN(const double low, scaling.number("low_freq_factor", 1e-6, 1e6));
  ASSIGN_OR_RETURN(const double high, scaling.number("high_freq_factor", 1e-6, 1e6));
  if (high < low) {
    return invalid_argument("{}.high_freq_factor: must be low_freq_factor ({}) or more, found {}",
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

// YaRN (arXiv 2309.00071): high frequencies are kept, low ones are interpolated.
struct Yarn {
  double factor, beta_fast, beta_slow, attention_factor;
  bool truncate;
};

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * exact_log(factor) + 1.0;
}

absl::StatusOr<Yarn> parse_yarn(const RopeScaling& scaling) {
  Yarn yarn;
  const double implied =
      static_cast<double>(scaling.max_positions) / static_cast<double>(scaling.original_positions);
  ASSIGN_OR_RETURN(yarn.factor, scaling.number("factor", 1e-6, 1e6, implied));
  ASSIGN_OR_RETURN(yarn.beta_fast, scaling.number("beta_fast", 0, 1e6, 32));
  ASSIGN_OR_RETURN(yarn.beta_slow, scaling.number("beta_slow", 0, 1e6, 1));
  if (yarn.beta_fast == 0) yarn.beta_fast = 32;  // Zero counts as missing, as in the reference.
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

absl::Status yarn(const RopeScaling& scaling, RopeConfig& out) {
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
  if (low == high) high += 0.001;  // Avoids the division by zero as the reference does.

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

// Adds frequencies, each divided by its number in the list `name`.
absl::Status add_divided(const RopeScaling& scaling, const char* name, RopeConfig& out) {
  const Json found = scaling.object->value(name, Json());
  const auto wanted = static_cast<size_t>(scaling.dim / 2);
  const auto divides = [](const Json& factor) {
    return factor.is_number() && factor.get<double>() >= 0.1 && factor.get<double>() <= 1e6;
  };
  if (!found.is_array() || found.size() != wanted ||
      !std::all_of(found.begin(), found.end(), divides)) {
    return invalid_argument("{}.{}: must be a list of {} numbers from 0.1 to 1e6, found {}",
                            scaling.key, name, wanted, describe(found));
  }
  std::vector<double> frequencies = plain_frequencies(scaling.dim, scaling.theta);
  for (size_t i = 0; i < wanted; ++i) frequencies[i] /= double{found[i].get<float>()};
  set_frequencies(frequencies, out);
  return absl::OkStatus();
}

// LongRoPE (arXiv 2402.13753): short_factor has a divisor for each frequency. In a sequence longer
// than the original positions, long_factor replaces it for all tokens.
absl::Status longrope(const RopeScaling& scaling, RopeConfig& out) {
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

// Gemma 4: the first part of a head's pairs is rotated, with the frequencies of a full rotation.
absl::Status proportional(const RopeScaling& scaling, RopeConfig& out) {
  ASSIGN_OR_RETURN(const double factor, scaling.number("factor", 1, 1e6, 1));
  ASSIGN_OR_RETURN(const double part, scaling.number(kRotaryPart, 0, 1, scaling.part));
  const double rotated = std::floor(part * static_cast<double>(scaling.dim) / 2);
  std::vector<double> frequencies = plain_frequencies(scaling.dim, scaling.theta);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = static_cast<double>(i) < rotated ? frequencies[i] / factor : 0;
  }
  set_frequencies(frequencies, out);
  out.reach = factor;
  return absl::OkStatus();
}

constexpr RopeKind kKinds[] = {
    {"default", plain, {}},
    {"linear", linear, {"factor"}},
    {"dynamic", dynamic, {"factor"}},
    {"llama3", llama3, {"factor", "low_freq_factor", "high_freq_factor", kOriginalPositions}},
    {"yarn",
     yarn,
     // transformers does not read attn_factor. Other programs multiply the inferred attention
     // factor by it.
     {"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
      "truncate", "attn_factor"}},
    {"longrope", longrope, {"short_factor", "long_factor", "factor", "attention_factor"}},
    {"proportional", proportional, {"factor"}, /*whole_heads=*/true},
    {"mrope", plain, {}},  // Rotates by three positions, which are equal in text.
};
constexpr RopeKind kFixedAlpha = {
    "dynamic",
    fixed_alpha,
    {"alpha", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}};

}  // namespace

absl::StatusOr<const RopeKind*> find_rope_kind(const RopeScaling& scaling) {
  for (const char* key : {"rope_type", "type"}) {
    absl::StatusOr<std::string> name = get_string(*scaling.object, key, "");
    if (!name.ok()) return invalid_argument("{}.{}", scaling.key, message_of(name.status()));
    if (name->empty()) continue;
    if (scaling.yarn_is_longrope && (*name == "su" || *name == "yarn")) name = "longrope";
    const bool alpha = scaling.fixed_alpha && !scaling.object->value("alpha", Json()).is_null();
    if (alpha && *name == "dynamic") return &kFixedAlpha;
    std::string supported;
    for (const RopeKind& kind : kKinds) {
      if (kind.name == *name) return &kind;
      supported += supported.empty() ? kind.name : fmt::format(", {}", kind.name);
    }
    return invalid_argument("{}.{}: \"{}\" is not supported; supported: {}", scaling.key, key,
                            printable(*name), supported);
  }
  return &kKinds[0];
}

}  // namespace lockstep
