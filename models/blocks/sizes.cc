// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/sizes.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace lockstep {

Sizes read_sizes(Keys& keys, const SizeDefaults& missing) {
  const auto some = [](int64_t value) {
    return value == 0 ? std::nullopt : std::optional<int64_t>(value);
  };
  Sizes sizes;
  sizes.vocab = keys.count("vocab_size", 1 << 24);
  sizes.hidden = keys.count("hidden_size", kMaxWidth);
  const double ffn = missing.ffn_per_hidden * static_cast<double>(sizes.hidden);
  sizes.ffn = keys.count("intermediate_size", kMaxWidth, some(static_cast<int64_t>(ffn)));
  keys.count_layers();
  sizes.layers = static_cast<int>(keys.count("num_hidden_layers", 1024));
  sizes.heads = keys.count("num_attention_heads", 4096);
  const bool default_kv = missing.kv_heads != 0 && keys.is_missing("num_key_value_heads");
  sizes.kv_heads =
      keys.count("num_key_value_heads", 4096, default_kv ? missing.kv_heads : sizes.heads);
  if (sizes.heads % sizes.kv_heads != 0) {
    keys.fail("num_key_value_heads", "must be a divisor of num_attention_heads ({}), found {}",
              sizes.heads, sizes.kv_heads);
    sizes.kv_heads = sizes.heads;
  }
  const bool divides = missing.head_dim == 0 && !keys.has("head_dim");
  if (divides && sizes.hidden % sizes.heads != 0) {
    keys.fail("hidden_size",
              "must be a multiple of num_attention_heads ({}) as there is no head_dim, found {}",
              sizes.heads, sizes.hidden);
  }
  const int64_t implied = missing.head_dim == 0 ? sizes.hidden / sizes.heads : missing.head_dim;
  sizes.head_dim = keys.count("head_dim", 1024, implied);
  if (sizes.heads * sizes.head_dim > kMaxWidth) {
    keys.fail("num_attention_heads * head_dim", "must be at most {}, found {}", kMaxWidth,
              sizes.heads * sizes.head_dim);
  }
  sizes.positions = keys.count("max_position_embeddings", kMaxPositions, some(missing.positions));
  return sizes;
}

namespace {

struct Activation {
  std::string_view name;
  Function function;
};
constexpr Activation kActivations[] = {
    {"silu", Function::kSilu},
    {"swish", Function::kSilu},
    {"gelu", Function::kGelu},
    {"gelu_python", Function::kGelu},
    {"gelu_pytorch_tanh", Function::kGeluTanh},
    {"gelu_new", Function::kGeluTanh},
    {"gelu_fast", Function::kGeluTanh},  // The same formula, with sqrt(2 / pi) to 8 digits.
    {"gelu_accurate", Function::kGeluTanh},
    {"relu", Function::kRelu},
    {"relu2", Function::kReluSquared},
    {"sqrelu", Function::kReluSquared},
};

}  // namespace

Function read_activation(Keys& keys, const char* fallback) {
  const std::string name = keys.text("hidden_act", fallback);
  std::string supported;
  for (const Activation& known : kActivations) {
    if (known.name == name) return known.function;
    supported += supported.empty() ? known.name : fmt::format(", {}", known.name);
  }
  keys.fail("hidden_act", "\"{}\" is not supported; supported: {}", printable(name), supported);
  return Function::kSilu;
}

Norm read_rms_norm(Keys& keys, double eps) { return {.eps = keys.eps(eps)}; }

Norm read_layer_norm(Keys& keys, bool bias) {
  keys.only("rms_norm use_rms_norm rmsnorm use_rmsnorm", false);
  keys.only_one_of("norm_type", {"layernorm", "low_precision_layernorm"});
  return {.eps = keys.eps(1e-5), .centred = true, .bias = bias};
}

Value apply(Graph& g, const Norm& norm, Value x, const char* name) {
  if (name == nullptr) return x;
  return norm.centred ? g.layer_norm(x, name, norm.eps, norm.bias, norm.plus)
                      : g.rms_norm(x, name, norm.eps, norm.plus);
}

}  // namespace lockstep
