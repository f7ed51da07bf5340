// SPDX-License-Identifier: Apache-2.0
// The table, and the search in it.
#include "models/tensor_names.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "models/graph/expert_pieces.h"

namespace lockstep {
namespace {

// A part of a family's names, and its alternative.
struct Spelling {
  std::string_view ours;
  std::string_view other;
};

// The beginning of a name: each row that matches gives one more spelling.
//
// `language_model.model.` is not another spelling of Qwen3.5's `model.language_model.`: MLX writes
// it, with 1 added to the weights of norms.
constexpr Spelling kPrefixes[] = {
    // Saved from the class without a head.
    {"model.", ""},
    {"transformer.", ""},
    {"gpt_neox.", ""},
    {"backbone.", ""},
    {"rwkv.", ""},
    // A text model saved without its wrapper, but with the wrapper's names (Qwen3.5); the reverse.
    {"model.", "model.language_model."},
    {"model.language_model.", "model."},
    {"language_model.", ""},
    // Names of wrappers in transformers 4, and in transformers 5.
    {"language_model.model.", "model.language_model."},
    {"language_model.lm_head.", "lm_head."},
    // Names of classes of transformers 5: Nemotron-H, GPT-NeoX.
    {"backbone.", "model."},
    {"embed_out.", "lm_head."},
};

// A part inside a name; several rows may apply. The other spellings are those of classes of
// transformers 5.
constexpr Spelling kParts[] = {
    // Mixtral and MiniMax M2: w1 is gate, w3 is up, w2 is down.
    {".block_sparse_moe.", ".mlp."},
    {".w1.", ".gate_proj."},
    {".w3.", ".up_proj."},
    {".w2.", ".down_proj."},
    // Granite 4.
    {".block_sparse_moe.input_linear.weight", ".block_sparse_moe.experts.gate_up_proj"},
    {".block_sparse_moe.output_linear.weight", ".block_sparse_moe.experts.down_proj"},
    {".block_sparse_moe.router.layer.", ".block_sparse_moe.router."},
    // Kimi K2.5, as transformers saves it.
    {".layers.", ".blocks."},
};

// A checkpoint may have a matrix per expert, `experts.N.<single>.weight`, or one stack of all
// experts, `experts.<stack>` [experts, shares * rows, columns]. An expert's matrix in the stack is
// `shares` matrices stacked vertically; <single> is number `share` of them.
struct Stack {
  std::string_view single;
  std::string_view stack;
  int64_t share;
  int64_t shares;
};
constexpr Stack kStacks[] = {
    {"gate_proj", "gate_up_proj", 0, 2},
    {"up_proj", "gate_up_proj", 1, 2},
    {"up_proj", "up_proj", 0, 1},  // If there is no gate.
    {"down_proj", "down_proj", 0, 1},
};
constexpr std::string_view kExperts = ".experts.";

// Heads of transformers' classes, whatever the family's name is.
constexpr std::string_view kHeads[] = {"language_model.lm_head.weight", "lm_head.weight"};

// The name and its other spellings.
std::vector<std::string> spellings(const std::string& name) {
  std::vector<std::string> all = {name};
  for (const Spelling& row : kPrefixes) {
    if (!name.starts_with(row.ours)) continue;
    all.push_back(std::string(row.other) + name.substr(row.ours.size()));
  }
  for (const Spelling& row : kParts) {
    for (size_t i = 0, count = all.size(); i < count; ++i) {
      const size_t at = all[i].find(row.ours);
      if (at == std::string::npos) continue;
      all.push_back(all[i]);
      all.back().replace(at, row.ours.size(), row.other);
    }
  }
  return all;
}

// The experts as this checkpoint stores them, one stack or one by one, if that differs from the
// family's names. `name`: a spelling of the name of the first expert, or of the stack.
std::optional<Experts> experts_elsewhere(const Checkpoint& checkpoint, const Parameter& parameter,
                                         const std::string& name) {
  const size_t at = name.find(kExperts);
  if (at == std::string::npos || parameter.is_vector()) return std::nullopt;
  const std::string scope = name.substr(0, at + kExperts.size());
  const std::string tail = name.substr(scope.size());
  const program::Piece& first = parameter.pieces.front();
  const int64_t rows = parameter.rows.columns();
  const int64_t begin = first.transpose() ? first.col_begin() : first.row_begin();
  for (const Stack& row : kStacks) {
    const std::string of_first = fmt::format("0.{}.weight", row.single);
    const std::string stack = scope + std::string(row.stack);
    if (tail == of_first && checkpoint.find(stack) != nullptr) {
      return Experts{.count = parameter.matrices,
                     .name = stack,
                     .stack_rows = row.shares * rows,
                     .row_begin = row.share * rows};
    }
    const bool is_share = tail == row.stack && begin == row.share * rows;
    if (is_share && checkpoint.find(scope + of_first) != nullptr) {
      return Experts{.count = parameter.matrices, .name = fmt::format("{}*.{}", scope, row.single)};
    }
  }
  return std::nullopt;
}

void use_names_of(const Checkpoint& checkpoint, Parameter& parameter) {
  const auto is_there = [&](const std::string& name) { return checkpoint.find(name) != nullptr; };
  if (is_there(parameter.pieces.front().source())) return;
  for (const std::string& name : spellings(parameter.pieces.front().source())) {
    const auto experts = experts_elsewhere(checkpoint, parameter, name);
    if (!experts) continue;
    parameter.pieces =
        expert_weight(experts->name, *experts, parameter.rows, parameter.cols).pieces;
    return;
  }
  for (program::Piece& piece : parameter.pieces) {
    const std::vector<std::string> names = spellings(piece.source());
    const auto found = std::ranges::find_if(names, is_there);
    if (found != names.end()) piece.set_source(*found);
  }
}

// Reads a stack with outputs first, not with inputs first, if the checkpoint's two stacks have the
// shapes of that layout. One stack may be square and fit both layouts; the pair never does.
void use_layout_of(const Checkpoint& checkpoint, const Config& config, Parameter& parameter) {
  const program::Piece first = parameter.pieces.front();
  const size_t at = first.source().find(kExperts);
  if (at == std::string::npos || !first.transpose()) return;
  const std::string scope = first.source().substr(0, at + kExperts.size());
  const TensorInfo* gate_up = checkpoint.find(scope + "gate_up_proj");
  const TensorInfo* down = checkpoint.find(scope + "down_proj");
  const int64_t count = config.experts.count, size = config.experts.size;
  const std::vector<int64_t> up_shape = {count, 2 * size, config.hidden_size};
  const std::vector<int64_t> down_shape = {count, config.hidden_size, size};
  if (gate_up == nullptr || down == nullptr) return;
  if (gate_up->shape != up_shape || down->shape != down_shape) return;
  const Experts experts{.count = count,
                        .name = first.source(),
                        .stack_rows = first.source_shape(2),
                        .row_begin = first.col_begin()};
  parameter.pieces = expert_weight(experts.name, experts, parameter.rows, parameter.cols).pieces;
}

// Whether the two tensors begin with the same bytes. A trained head differs from the embedding from
// its first row on. The answer decides only whether the user is informed.
bool begin_alike(const Checkpoint& checkpoint, const TensorInfo& a, const TensorInfo& b) {
  const int64_t elements = a.rows * a.cols;
  const bool whole_bytes = elements > 0 && (a.end - a.begin) % elements == 0;
  if (!whole_bytes || a.dtype_name != b.dtype_name || a.shape != b.shape) return false;
  const Rectangle first = {0, std::min<int64_t>(a.rows, 64), 0, a.cols};
  std::vector<std::byte> of_a((a.end - a.begin) / a.rows * first.rows()), of_b(of_a.size());
  return checkpoint.read_stored(a, first, of_a.data()).ok() &&
         checkpoint.read_stored(b, first, of_b.data()).ok() && of_a == of_b;
}

// Selects the head's source among the checkpoint's tensors; returns a line if that contradicts the
// config.
std::optional<std::string> choose_head(const Checkpoint& checkpoint, const Config& config,
                                       Graph& graph) {
  auto& all = graph.mutable_parameters();
  const auto head = std::ranges::find(all, program::HEAD_WEIGHT, &Parameter::role);
  if (head == all.end()) return std::nullopt;
  if (config.tie_disputed && checkpoint.find(head->pieces.front().source()) == nullptr) {
    const auto rows = std::ranges::find(all, program::EMBEDDING, &Parameter::role);
    if (rows != all.end()) head->pieces = rows->pieces;
    return std::nullopt;
  }
  const std::string tied = head->pieces.front().source();
  const auto embedding = std::ranges::find_if(all, [&](const Parameter& other) {
    return other.role == program::EMBEDDING && other.pieces.front().source() == tied;
  });
  if (embedding == all.end()) return std::nullopt;
  std::vector<std::string> names = spellings(config.own_head);
  names.insert(names.end(), std::begin(kHeads), std::end(kHeads));
  const auto own = std::ranges::find_if(
      names, [&](const std::string& name) { return checkpoint.find(name) != nullptr; });
  if (own == names.end() || *own == tied) return std::nullopt;
  const TensorInfo* rows = checkpoint.find(tied);
  head->name = *own;
  head->pieces.front().set_source(head->name);
  if (rows == nullptr) {
    embedding->pieces.front().set_source(head->name);
    return fmt::format("{} is missing and the model is tied: using {} as the embedding, too",
                       printable(tied), *own);
  }
  if (begin_alike(checkpoint, *rows, *checkpoint.find(*own))) return std::nullopt;
  return fmt::format(
      "config.json ties the head to the embedding, but the checkpoint has a head, {}: using it",
      *own);
}

}  // namespace

std::vector<std::string> use_names_of(const Checkpoint& checkpoint, const Config& config,
                                      Graph& graph) {
  for (Parameter& parameter : graph.mutable_parameters()) {
    use_names_of(checkpoint, parameter);
    if (config.experts.either_layout) use_layout_of(checkpoint, config, parameter);
  }
  const std::optional<std::string> said = choose_head(checkpoint, config, graph);
  return said ? std::vector{*said} : std::vector<std::string>();
}

}  // namespace lockstep
