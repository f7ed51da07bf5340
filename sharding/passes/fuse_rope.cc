// SPDX-License-Identifier: Apache-2.0
// The attention kernel rotates keys when it stores them in pages, and queries before it multiplies
// them. So three kernels become one, and rotated values are not written and read as float32.
#include <optional>
#include <utility>
#include <vector>

#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {
namespace {

bool alike(const program::RopeAttrs& a, const program::RopeAttrs& b) {
  return a.head_dim() == b.head_dim() && a.rotary_dim() == b.rotary_dim() &&
         a.interleaved() == b.interleaved() && a.offset() == b.offset();
}

// The ropes of q and k, or nulls.
std::pair<const Node*, const Node*> ropes_of(const Graph& graph, const std::vector<int>& uses,
                                             const Node& node) {
  if (node.op != Op::kAttention) return {};
  const program::AttentionAttrs& attention = node.attributes.attention();
  if (attention.read_only() || attention.values_in_keys()) return {};
  const Node* q = only_maker(graph, uses, node.inputs[0], Op::kRope);
  const Node* k = only_maker(graph, uses, node.inputs[1], Op::kRope);
  if (q == nullptr || k == nullptr || q->inputs[1] != k->inputs[1]) return {};
  const program::RopeAttrs& rope = q->attributes.rope();
  if (rope.head_dim() != attention.head_dim() || !alike(rope, k->attributes.rope())) return {};
  return {q, k};
}

Node fused(Rewriter& rewriter, const Node& attention, const Node& q, const Node& k) {
  Node node{.op = Op::kRopeAttention, .attributes = attention.attributes};
  for (int input : {q.inputs[0], k.inputs[0], attention.inputs[2], q.inputs[1]}) {
    node.inputs.push_back(rewriter.value(input));
  }
  for (int id : attention.parameters) node.parameters.push_back(rewriter.parameter(id));
  program::AttentionAttrs& attributes = *node.attributes.mutable_attention();
  attributes.set_rotary_dim(q.attributes.rope().rotary_dim());
  attributes.set_interleaved(q.attributes.rope().interleaved());
  attributes.set_offset(q.attributes.rope().offset());
  return node;
}

}  // namespace

Graph fuse_rope(const Graph& graph, const CompileOptions& options) {
  if (!are_gpus(options.workers)) return graph;
  return fuse_nodes(graph,
                    [&, uses = use_counts(graph)](const Node& attention) -> std::optional<Fusion> {
                      const auto [q, k] = ropes_of(graph, uses, attention);
                      if (q == nullptr) return std::nullopt;
                      const auto node = [&attention, &q = *q, &k = *k](Rewriter& to) {
                        return fused(to, attention, q, k);
                      };
                      return Fusion{{&attention, q, k}, node, attention.outputs};
                    });
}

}  // namespace lockstep
