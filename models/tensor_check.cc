// SPDX-License-Identifier: Apache-2.0
#include "models/tensor_check.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/first_names.h"
#include "base/status.h"
#include "checkpoint/quantized_tensor.h"
#include "checkpoint/weight_source.h"

namespace lockstep {
namespace {

// Parts of names of tensors that no computation here reads.
constexpr std::string_view kNotRead[] = {
    ".rotary_emb.", ".inv_freq",        // Rotary tables, which are computed.
    ".attn.bias",   ".attention.bias",  // Causal masks of GPT-2, GPT-NeoX and similar models:
    ".masked_bias", ".causal_mask",     // constant tables with the name of a bias.
    ".indexer.",                        // No effect within the supported context.
    ".0.att.v0",    ".0.att.v1",        // RWKV-7's first layer has no earlier layer
    ".0.att.v2",                        // with values that it could mix in.
};

// A layer that reads the keys and values of another layer (Gemma 4) may also have these.
constexpr std::string_view kKeysAndValues[] = {"self_attn.k_proj.", "self_attn.v_proj.",
                                               "self_attn.k_norm.", "self_attn.v_norm."};

// Parts of names that only draft layers have (layers that predict further tokens).
constexpr std::string_view kDraftLayerParts[] = {"eh_proj.", "enorm.", "shared_head."};

std::vector<std::string_view> parts_of_name(std::string_view name) {
  std::vector<std::string_view> parts;
  while (!name.empty()) {
    const size_t end = std::min(name.find('.'), name.size());
    parts.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return parts;
}

// Compares by the number of equal parts at both ends, then at the end, then by length: two
// spellings of one tensor share its layer, its last words, or both. "weight" at the end does not
// count.
std::tuple<int64_t, int64_t, int64_t> similarity(std::string_view wanted, std::string_view found) {
  std::vector<std::string_view> a = parts_of_name(wanted), b = parts_of_name(found);
  for (auto* parts : {&a, &b}) {
    if (!parts->empty() && parts->back() == "weight") parts->pop_back();
  }
  const auto front = std::ranges::mismatch(a, b).in1 - a.begin();
  const auto back = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin();
  return {front + back, back, -std::abs(std::ssize(wanted) - std::ssize(found))};
}

// Searches only tensors that the model does not read: a tensor that it reads is no misspelling.
std::string nearest_tensor(const Checkpoint& checkpoint, const std::set<std::string_view>& read,
                           const std::string& wanted) {
  if (checkpoint.tensors().empty()) return "the checkpoint has no tensors; ";
  const TensorInfo* nearest = nullptr;
  auto max = std::tuple<int64_t, int64_t, int64_t>(0, 0, 0);  // At least one part must be equal.
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const auto now = similarity(wanted, tensor.name);
    if (now <= max || read.contains(tensor.name)) continue;
    max = now;
    nearest = &tensor;
  }
  if (nearest == nullptr) return "";
  return fmt::format("nearest to the first is {} {}; ", printable(nearest->name),
                     shape_text(nearest->shape));
}

// If the head alone is missing, the model usually uses its embedding as the head. A tied head is
// never missing.
std::string_view probable_cause(const Graph& graph, const std::vector<std::string>& missing) {
  const auto head = std::ranges::find(graph.parameters(), program::HEAD_WEIGHT, &Parameter::role);
  const bool is_head = missing.size() == 1 && head != graph.parameters().end() &&
                       head->pieces.front().source() == missing.front();
  return is_head
             ? "if the head is the embedding, config.json must say \"tie_word_embeddings\": true"
             : "does its config.json belong to these weights?";
}

// The place of a tensor: "model.layers.3." for all in that layer, else the text up to the last dot.
std::string_view place_of(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    if (end > begin && std::all_of(name.begin() + begin, name.begin() + end, is_digit)) {
      return name.substr(0, std::min(end + 1, name.size()));
    }
    begin = end + 1;
  }
  return name.substr(0, name.rfind('.') + 1);
}

using Names = std::set<std::string, std::less<>>;

// "model.layers." for the place of a layer; "" for other places.
std::string_view layers_of(std::string_view place) {
  place.remove_suffix(place.empty() ? 0 : 1);
  const size_t number = place.rfind('.') + 1;
  const bool is_layer = place.find_first_not_of("0123456789", number) == place.npos;
  return is_layer ? place.substr(0, number) : "";
}

// Places of the tensors that a graph reads, and of draft layers, which follow the model's layers
// under the same name.
struct Places {
  std::set<std::string_view> read;
  std::set<std::string_view> layers;  // By layers_of().
  std::set<std::string_view> drafts;
};

void find_drafts(const Checkpoint& checkpoint, Places& places) {
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const std::string_view place = place_of(tensor.name);
    const std::string_view inner = std::string_view(tensor.name).substr(place.size());
    for (const std::string_view part : kDraftLayerParts) {
      if (inner.starts_with(part)) places.drafts.insert(place);
    }
  }
}

// Whether the model should read a place's tensors: it reads some of them, or the place is one more
// layer after the model's layers, but not a draft layer.
bool is_in_model(const Places& places, std::string_view place) {
  if (places.read.contains(place)) return true;
  return places.layers.contains(layers_of(place)) && !places.drafts.contains(place);
}

bool should_be_read(const Names& read, const Places& places, std::string_view name) {
  for (const std::string_view part : kNotRead) {
    if (name.find(part) != std::string_view::npos) return false;
  }
  const std::string place(place_of(name));
  if (!is_in_model(places, place)) return false;
  if (!places.read.contains(place)) return true;
  if (read.contains(place + "self_attn.k_proj.weight")) return true;
  return std::ranges::none_of(kKeysAndValues, [&](std::string_view part) {
    return name.substr(place.size()).starts_with(part);
  });
}

bool is_part_of_codes(const Checkpoint& checkpoint, std::string_view name) {
  return is_quantized(checkpoint, name.substr(0, name.rfind('.')));
}

}  // namespace

absl::Status check_tensors(const Checkpoint& checkpoint, const Graph& graph) {
  std::set<std::string_view> wanted;
  std::vector<std::string> missing;  // In the graph's order.
  for (const Parameter& parameter : graph.parameters()) {
    for (const program::Piece& piece : parameter.pieces) {
      if (!wanted.insert(piece.source()).second || checkpoint.find(piece.source())) continue;
      missing.push_back(piece.source());
    }
  }
  if (!missing.empty()) {
    return failed_precondition("{} of {} tensors {} missing from the checkpoint {}: {}; {}{}",
                               missing.size(), wanted.size(), missing.size() == 1 ? "is" : "are",
                               checkpoint.folder().string(), first_names(missing),
                               nearest_tensor(checkpoint, wanted, missing.front()),
                               probable_cause(graph, missing));
  }
  for (const Parameter& parameter : graph.parameters()) {
    for (const program::Piece& piece : parameter.pieces) {
      RETURN_IF_ERROR(check_source(checkpoint, piece));
    }
  }
  return absl::OkStatus();
}

std::string unread_tensors(const Checkpoint& checkpoint, const Graph& graph) {
  Names read;
  Places places;
  find_drafts(checkpoint, places);
  for (const Parameter& parameter : graph.parameters()) {
    for (const program::Piece& piece : parameter.pieces) {
      read.insert(piece.source());
      const std::string_view place = place_of(piece.source());
      places.read.insert(place);
      if (const auto layers = layers_of(place); !layers.empty()) places.layers.insert(layers);
    }
  }
  std::vector<std::string> unread;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const std::string& name = tensor.name;
    if (read.contains(name) || !should_be_read(read, places, name)) continue;
    if (!is_part_of_codes(checkpoint, name)) unread.push_back(name);
  }
  if (unread.empty()) return "";
  return fmt::format(
      "{} {} not read: {}; all tensors in layers, and next to tensors that are read, should be "
      "read: does config.json belong to these weights?",
      count_of(std::ssize(unread), "tensor"), unread.size() == 1 ? "is" : "are",
      first_names(unread));
}

}  // namespace lockstep
