// SPDX-License-Identifier: Apache-2.0
// RWKV 6 (Finch, https://arxiv.org/abs/2404.05892), with the names of the published files: weights
// of mixtures and decay depend on the row.
#include <string>

#include "models/blocks/rwkv.h"
#include "models/families/families.h"

namespace lockstep::families::rwkv6 {
namespace {

// Columns between the two small matrices of a narrow product, x * narrowing * widening.
struct Widths {
  int64_t mix = 1;
  int64_t decay = 1;
};

AxisSize narrow(int64_t columns) { return {Axis::kNone, columns, 1}; }

// Mixes each row with the one before it. The weight is the vector time_maa_`part` plus a narrow
// product of `mixture`. The two matrices of this product are stored with those of the other parts,
// as number `index`.
Value mixed(Graph& g, int64_t width, int64_t between, const TokenShift& rows, Value mixture,
            int64_t index, const std::string& part) {
  const FusedPart first = {.name = part,
                           .all_rows = 5 * between,
                           .rows = {{index * between, (index + 1) * between}},
                           .transposed = true,
                           .bare_name = true};
  const FusedPart second = {.name = part,
                            .all_rows = width,
                            .rows = {{0, width}},
                            .matrices = 5,
                            .transposed = true,
                            .matrix = index,
                            .bare_name = true};
  const Value inner = g.linear_part(mixture, "time_maa_w1", first, narrow(between));
  // The axis is never split: the weight is combined with whole rows, and costs little to compute.
  const Value weight =
      g.linear_part(g.map(inner, Function::kTanh), "time_maa_w2", second, narrow(width));
  return g.lerp(rows.x, rows.before, g.biased(weight, "time_maa_" + part, {1, 1, width}));
}

Value time_mix(Graph& g, const RwkvHeads& h, const Widths& widths, Value x) {
  const Scope scope(g, "att");
  const TokenShift rows = token_shift(g, x);
  const Value mixture = mix_before(g, rows, "time_maa_x");
  const auto of = [&](int64_t index, const char* part) {
    return mixed(g, h.hidden, widths.mix, rows, mixture, index, part);
  };
  const Value inner = linear_from_transposed(g, of(0, "w"), "time_decay_w1", narrow(widths.decay));
  const Value decay =
      linear_from_transposed(g, g.map(inner, Function::kTanh), "time_decay_w2", h.axis());
  return recurrent_time_mix(g, h,
                            {.r = g.linear(of(3, "r"), "receptance", h.axis()),
                             .k = g.linear(of(1, "k"), "key", h.axis()),
                             .v = g.linear(of(2, "v"), "value", h.axis()),
                             .decay = g.biased(decay, "time_decay", {1, 1, h.hidden}),
                             .gate = of(4, "g")});
}

Value mlp(Graph& g, const Mlp& m, Value x) {
  const Scope scope(g, "ffn");
  const TokenShift rows = token_shift(g, x);
  const Value k = mix_before(g, rows, "time_maa_k");
  return channel_mix(g, m, k, mix_before(g, rows, "time_maa_r"));
}

LanguageModel rwkv6(Keys& keys) {
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.rename("head_size", "head_dim");
  keys.default_from_tensor("mix_low_rank_dim", "blocks.0.att.time_maa_w2", 1);
  keys.default_from_tensor("decay_low_rank_dim", "blocks.0.att.time_decay_w1", 1);
  keys.default_from_tensor("intermediate_size", "blocks.0.ffn.key.weight", 0);
  keys.ignore("attention_hidden_size rescale_every");
  Llama m = read_rwkv(keys, {.head_dim = 64, .positions = 4096});
  const RwkvHeads heads = read_rwkv_heads(keys, m);
  const Widths widths = {.mix = keys.count("mix_low_rank_dim", kMaxWidth),
                         .decay = keys.count("decay_low_rank_dim", kMaxWidth)};
  return rwkv_model(
      m, [=](Graph& g, Value x, int) { return time_mix(g, heads, widths, x); },
      [half = m.mlp](Graph& g, Value x, int) { return mlp(g, half, x); });
}

constexpr Architecture kRows[] = {{"Rwkv6ForCausalLM", rwkv6}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::rwkv6
