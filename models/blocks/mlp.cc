// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mlp.h"

#include <optional>

namespace lockstep {

Mlp read_mlp(Keys& keys, const Sizes& sizes, const char* activation) {
  return {
      .hidden = sizes.hidden, .width = sizes.ffn, .activation = read_activation(keys, activation)};
}

Block gated_mlp(const Mlp& m, const MlpNames& names, const std::string& scope) {
  return [=](Graph& g, Value x, int) {
    std::optional<Scope> scoped;
    if (!scope.empty()) scoped.emplace(g, scope);
    const Value gate = g.map(g.linear(x, names.gate, ffn_axis(m.width), m.bias), m.activation);
    const Value up = g.linear(x, names.up, ffn_axis(m.width), m.bias);
    return g.linear(g.mul(gate, up), names.down, hidden_axis(m.hidden), m.bias);
  };
}

Block plain_mlp(const Mlp& m, const std::string& up, const std::string& down) {
  return [=](Graph& g, Value x, int) {
    const Value inner = g.map(g.linear(x, up, ffn_axis(m.width), m.bias), m.activation);
    return g.linear(inner, down, hidden_axis(m.hidden), m.bias);
  };
}

Block stacked_mlp(const Mlp& m, const std::string& gate_up, const std::string& down) {
  return [=](Graph& g, Value x, int) {
    const auto part = [&](const char* name, int64_t begin) {
      return g.linear_part(x, gate_up, rows_of_runs(name, 1, 2 * m.width, begin, m.width),
                           ffn_axis(m.width), m.bias);
    };
    const Value gate = g.map(part("gate", 0), m.activation);
    return g.linear(g.mul(gate, part("up", m.width)), down, hidden_axis(m.hidden), m.bias);
  };
}

Value scoped_mlp(Graph& g, const Mlp& m, Value x, const char* scope) {
  const Scope scoped(g, scope);
  const AxisSize size = ffn_axis(m.width);
  const Value up = g.linear(x, "up_proj", size);
  const Value gate = g.map(g.linear(x, "gate_proj", size), m.activation);
  return g.linear(g.mul(gate, up), "down_proj", hidden_axis(m.hidden));
}

Value transposed_part(Graph& g, Value x, const std::string& name, const char* part, int64_t begin,
                      int64_t all_rows, AxisSize out) {
  FusedPart rows = rows_of_runs(part, 1, all_rows, begin, out.columns());
  rows.transposed = true;
  return g.linear_part(x, name, rows, out, /*bias=*/true);
}

Value transposed_linear(Graph& g, Value x, const std::string& name, AxisSize out) {
  return transposed_part(g, x, name, "", 0, out.columns(), out);
}

}  // namespace lockstep
