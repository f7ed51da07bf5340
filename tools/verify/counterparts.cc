// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/counterparts.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

using Run = Counterpart::Run;

// The module of "model.layers.0.mlp.up_proj.weight"; its output has a column for each row.
std::string module_of(const program::Piece& piece) {
  const std::string& source = piece.source();
  constexpr std::string_view kWeight = ".weight";
  return source.ends_with(kWeight) ? source.substr(0, source.size() - kWeight.size()) : source;
}

// "model.layers.3" from "model.layers.3.mlp.up_proj"; "" for a name without a layer.
std::string layer_of(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const bool digits = !part.empty() && std::ranges::all_of(part, [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
    if (digits) return std::string(name.substr(0, end));
    begin = end + 1;
  }
  return "";
}

// Operators that are separate modules in every model. In a module with several operators, the last
// operator may have other inputs than the module.
bool is_module(Op op) {
  return op == Op::kLinear || op == Op::kRmsNorm || op == Op::kLayerNorm || op == Op::kHeadNorm;
}

class Finder {
 public:
  Finder(const Graph& model, const Reference& reference) : model_(model), reference_(reference) {
    for (const Node& node : model.nodes()) note(node);
  }

  std::map<std::string, Counterpart> find() {
    for (size_t id = 0; id < model_.values().size(); ++id) {
      const auto value = static_cast<int>(id);
      (is_its_modules(value) && (by_name(value, info(value).name) || by_rows(value))) ||
          by_layer(value) || by_readers(value);
    }
    return std::move(found_);
  }

 private:
  const ValueInfo& info(int value) const { return model_.values()[static_cast<size_t>(value)]; }

  const Node& maker(int value) const {
    return model_.nodes()[static_cast<size_t>(info(value).node)];
  }
  const Parameter& parameter(const Node& node, size_t index) const {
    return model_.parameters()[static_cast<size_t>(node.parameters[index])];
  }

  // Whether the module itself computes the value. A linear's bias may be another vector of the
  // checkpoint, which the module does not add.
  bool is_its_modules(int value) const {
    const Node& node = maker(value);
    if (node.op != Op::kLinear || node.parameters.size() < 2) return true;
    const std::string own = module_of(parameter(node, 0).pieces[0]) + ".bias";
    return std::ranges::all_of(parameter(node, 1).pieces,
                               [&](const program::Piece& piece) { return piece.source() == own; });
  }

  // Records which modules read the node's inputs, and the last value of the node's layer.
  void note(const Node& node) {
    for (const int input : node.inputs) {
      if (node.op == Op::kTopCandidates) readers_[input].insert("logits");
      if (node.parameters.empty() || !is_module(node.op)) continue;
      for (const int output : node.outputs) readers_[input].insert(info(output).name + " (input)");
      for (const program::Piece& piece : parameter(node, 0).pieces) {
        readers_[input].insert(module_of(piece) + " (input)");
      }
    }
    for (const int output : node.outputs) last_[layer_of(info(output).name)] = output;
  }

  bool by_name(int value, const std::string& name) {
    const TensorInfo* tensor = reference_.find(name);
    if (tensor == nullptr || tensor->cols != info(value).axis.columns()) return false;
    found_[info(value).name] = {{Run{tensor, 0, tensor->cols}}, name};
    return true;
  }

  bool by_rows(int value) {
    const Node& node = maker(value);
    if (node.op != Op::kLinear) return false;
    Counterpart counterpart;
    int64_t columns = 0;
    for (const program::Piece& piece : parameter(node, 0).pieces) {
      const std::string module = module_of(piece);
      const TensorInfo* tensor = reference_.find(module);
      const int64_t begin = piece.transpose() ? piece.col_begin() : piece.row_begin();
      const int64_t end = piece.transpose() ? piece.col_end() : piece.row_end();
      const bool plain = piece.source_shape_size() == 2 && piece.interleaved() == 0;
      if (!plain || tensor == nullptr) return false;
      if (tensor->cols != piece.source_shape(piece.transpose() ? 1 : 0)) return false;
      counterpart.runs.push_back({tensor, begin, end});
      counterpart.name = module;
      columns += end - begin;
    }
    if (columns != info(value).axis.columns()) return false;
    found_[info(value).name] = std::move(counterpart);
    return true;
  }

  bool by_layer(int value) {
    const std::string layer = layer_of(info(value).name);
    const bool last = maker(value).op == Op::kAdd && last_[layer] == value;
    return !layer.empty() && last && by_name(value, layer);
  }

  bool by_readers(int value) {
    return std::ranges::any_of(readers_[value],
                               [&](const std::string& name) { return by_name(value, name); });
  }

  const Graph& model_;
  const Reference& reference_;
  std::map<int, std::set<std::string>> readers_;  // By value: the reference's names.
  std::map<std::string, int> last_;               // By layer: the last value that it makes.
  std::map<std::string, Counterpart> found_;
};

}  // namespace

std::map<std::string, Counterpart> find_counterparts(const Graph& model,
                                                     const Reference& reference) {
  return Finder(model, reference).find();
}

}  // namespace lockstep
