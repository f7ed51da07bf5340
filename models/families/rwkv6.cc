// SPDX-License-Identifier: Apache-2.0
// RWKV 6 (Finch, https://arxiv.org/abs/2404.05892), with the names of the published files: weights
// of mixtures and decay depend on the row.
#include "models/blocks.h"
#include "models/families/families.h"
#include "models/rwkv_blocks.h"

namespace lockstep::families::rwkv6 {
namespace {

AxisSize narrow(int64_t columns) { return {Axis::kNone, columns, 1}; }

// The weight is the vector time_maa_`part` and a narrow product of `mixture`, whose matrices
// lie with those of the other parts: `part` has the number `index`.
Value mixed(Graph& g, const Config& c, const TokenShift& rows, Value mixture, int64_t index,
            const std::string& part) {
  const int64_t width = c.hidden_size, between = c.rwkv.mix_rank;
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
  // Small enough to be computed by all: it meets rows that are whole.
  const Value weight =
      g.linear_part(g.map(inner, Function::kTanh), "time_maa_w2", second, narrow(width));
  return g.lerp(rows.x, rows.before, g.biased(weight, "time_maa_" + part, {1, 1, width}));
}

Value time_mix(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "att");
  const TokenShift rows = token_shift(g, x);
  const Value mixture = mix_before(g, rows, "time_maa_x");
  const auto of = [&](int64_t index, const char* part) {
    return mixed(g, c, rows, mixture, index, part);
  };
  const Value inner = turned_linear(g, of(0, "w"), "time_decay_w1", narrow(c.rwkv.decay_rank));
  const Value decay = turned_linear(g, g.map(inner, Function::kTanh), "time_decay_w2", heads(c));
  return recurrent_time_mix(g, c,
                            {.r = g.linear(of(3, "r"), "receptance", heads(c)),
                             .k = g.linear(of(1, "k"), "key", heads(c)),
                             .v = g.linear(of(2, "v"), "value", heads(c)),
                             .decay = g.biased(decay, "time_decay", {1, 1, c.hidden_size}),
                             .gate = of(4, "g")});
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "ffn");
  const TokenShift rows = token_shift(g, x);
  const Value k = mix_before(g, rows, "time_maa_k");
  return channel_mix(g, c, k, mix_before(g, rows, "time_maa_r"));
}

void build(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = time_mix,
                .mlp = mlp,
                .embedding = "emb",
                .embedding_norm = "blocks.0.ln0",
                .layers = "blocks",
                .attention_norm = "ln1",
                .mlp_norm = "ln2",
                .norm = "ln_out",
                .head = "head"});
}

constexpr Architecture kRows[] = {
    {"Rwkv6ForCausalLM",
     build,
     {.layer_norm = true,
      .norm_eps = 1e-5,
      .activation = "relu2",
      .positions = 4096,
      .defaults = R"({"num_attention_heads": 1, "head_dim": 64})",
      .keys = {"attention_hidden_size", "rescale_every", "mix_low_rank_dim", "decay_low_rank_dim"},
      .names = {{{"layer_norm_epsilon", "rms_norm_eps"}, {"head_size", "head_dim"}}},
      .sizes = {{{"mix_low_rank_dim", "blocks.0.att.time_maa_w2", 1},
                 {"decay_low_rank_dim", "blocks.0.att.time_decay_w1", 1},
                 {"intermediate_size", "blocks.0.ffn.key.weight", 0}}},
      .refine = read_rwkv6}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::rwkv6
