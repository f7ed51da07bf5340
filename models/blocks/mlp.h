// SPDX-License-Identifier: Apache-2.0
// Multilayer perceptrons (dense).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/blocks/attention.h"
#include "models/blocks/sizes.h"
#include "models/graph/graph.h"

namespace lockstep {

struct Mlp {
  int64_t hidden = 1;
  int64_t width = 1;
  Function activation = Function::kSilu;
  bool bias = false;
};
// `activation`: the default of hidden_act. A family that reads mlp_bias sets `bias` itself.
Mlp read_mlp(Keys& keys, const Sizes& sizes, const char* activation = "silu");

struct MlpNames {
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";
  std::string down = "mlp.down_proj";
};
// down(activation(gate(x)) * up(x)); names are relative to `scope`, unless it is "".
Block gated_mlp(const Mlp& mlp, const MlpNames& names = {}, const std::string& scope = "");
// down(activation(up(x))).
Block plain_mlp(const Mlp& mlp, const std::string& up, const std::string& down);
// The MLP of gated_mlp(), with gate and up stacked vertically in the one matrix `gate_up`.
Block stacked_mlp(const Mlp& mlp, const std::string& gate_up, const std::string& down);
// The MLP of gated_mlp() in `scope`, with the names gate_proj, up_proj and down_proj.
Value scoped_mlp(Graph& graph, const Mlp& mlp, Value x, const char* scope);

// A linear with a bias; its weight is stored with inputs as rows.
Value transposed_linear(Graph& graph, Value x, const std::string& name, AxisSize out);
// transposed_linear() with a part of a matrix of `all_rows` outputs: out.columns() of them, from
// `begin` on. `part` names these outputs in messages.
Value transposed_part(Graph& graph, Value x, const std::string& name, const char* part,
                      int64_t begin, int64_t all_rows, AxisSize out);

}  // namespace lockstep
