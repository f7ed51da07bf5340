// SPDX-License-Identifier: Apache-2.0
// A model's tensors under other names.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/files/safetensors_writer.h"
#include "tests/support/goldens/interpret.h"

namespace lockstep {

inline void write_checkpoint(const std::filesystem::path& folder, const naive::Tensors& tensors) {
  TestTensors written;
  for (const auto& [name, tensor] : tensors) {
    written[name] = {.dtype = "F32", .shape = tensor.shape, .values = tensor.data};
  }
  write_safetensors(folder / "model.safetensors", written);
}

// Replaces `from` by `to` in every name that contains it.
inline naive::Tensors renamed(const naive::Tensors& tensors, const std::string& from,
                              const std::string& to) {
  naive::Tensors result;
  for (const auto& [own, tensor] : tensors) {
    std::string name = own;
    if (const size_t at = name.find(from); at != std::string::npos) {
      name.replace(at, from.size(), to);
    }
    result[name] = tensor;
  }
  return result;
}

inline naive::Tensor transposed_matrix(const naive::Tensor& matrix) {
  const int64_t rows = matrix.shape[0], cols = matrix.shape[1];
  naive::Tensor result{.shape = {cols, rows}, .data = std::vector<float>(matrix.data.size())};
  for (int64_t i = 0; i < rows * cols; ++i) {
    result.data[static_cast<size_t>(i % cols * rows + i / cols)] =
        matrix.data[static_cast<size_t>(i)];
  }
  return result;
}

// Puts two matrices with the same number of columns below each other.
inline naive::Tensor below(naive::Tensor upper, const naive::Tensor& lower) {
  upper.shape[0] += lower.shape[0];
  upper.data.insert(upper.data.end(), lower.data.begin(), lower.data.end());
  return upper;
}

// Turns experts into stacks: "L.experts.3.up_proj.weight" becomes a part of "L.experts.up_proj". If
// there is a gate, gate and up become one stack. Only names that begin with `layers` are changed.
inline naive::Tensors stacked(naive::Tensors tensors, const std::string& layers = "",
                              bool transposed = false) {
  const std::string experts = ".experts.", weight = ".weight";
  std::map<std::string, std::map<int, naive::Tensor>> stacks;
  for (const auto& [name, tensor] : naive::Tensors(tensors)) {
    const size_t at = name.find(experts);
    if (!name.starts_with(layers) || at == std::string::npos || !name.ends_with(weight)) continue;
    const size_t number = at + experts.size(), part = name.find('.', number) + 1;
    const std::string own = name.substr(part, name.size() - weight.size() - part);
    stacks[name.substr(0, number) + own][std::stoi(name.substr(number))] = tensor;
    tensors.erase(name);
  }
  for (auto& [name, matrices] : stacks) {
    if (!name.ends_with("gate_proj")) continue;
    const std::string up = name.substr(0, name.size() - 9) + "up_proj";
    for (auto& [expert, matrix] : matrices) matrix = below(matrix, stacks[up][expert]);
    stacks[up].clear();
  }
  for (const auto& [name, matrices] : stacks) {
    if (matrices.empty()) continue;
    const bool gated = name.ends_with("gate_proj");
    naive::Tensor& stack = tensors[gated ? name.substr(0, name.size() - 9) + "gate_up_proj" : name];
    for (const auto& [expert, matrix] : matrices) {
      const naive::Tensor stored = transposed ? transposed_matrix(matrix) : matrix;
      stack.shape = {std::ssize(matrices), stored.shape[0], stored.shape[1]};
      stack.data.insert(stack.data.end(), stored.data.begin(), stored.data.end());
    }
  }
  return tensors;
}

// Turns stacks "....experts.gate_up_proj" and "....experts.down_proj" into one matrix per expert.
inline naive::Tensors single(naive::Tensors tensors, bool transposed = false) {
  for (const auto& [name, stack] : naive::Tensors(tensors)) {
    const bool gated = name.ends_with(".experts.gate_up_proj");
    if (!gated && !name.ends_with(".experts.down_proj")) continue;
    const std::string scope = name.substr(0, name.rfind('.') + 1);
    const int64_t size = stack.shape[1] * stack.shape[2];
    for (int64_t expert = 0; expert < stack.shape[0]; ++expert) {
      const auto first = stack.data.begin() + expert * size;
      naive::Tensor matrix{.shape = {stack.shape[1], stack.shape[2]},
                           .data = {first, first + size}};
      if (transposed) matrix = transposed_matrix(matrix);
      const std::string own = scope + std::to_string(expert);
      if (!gated) {
        tensors[own + ".down_proj.weight"] = matrix;
        continue;
      }
      const auto middle = matrix.data.begin() + size / 2;
      const std::vector<int64_t> half = {matrix.shape[0] / 2, matrix.shape[1]};
      tensors[own + ".gate_proj.weight"] = {half, {matrix.data.begin(), middle}};
      tensors[own + ".up_proj.weight"] = {half, {middle, matrix.data.end()}};
    }
    tensors.erase(name);
  }
  return tensors;
}

}  // namespace lockstep
