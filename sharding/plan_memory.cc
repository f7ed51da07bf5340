// SPDX-License-Identifier: Apache-2.0
// Values that share memory form a block: a value, views of its columns, what is computed in place.
// Blocks are placed largest first, each at the lowest place that is free as long as it lives
// ("greedy by size", Pisarchyk and Lee, arXiv 2001.03288).
#include "sharding/plan_memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "sharding/operators.h"

namespace lockstep {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int kForever = std::numeric_limits<int>::max();

// Columns [begin, begin + cols) of a block.
struct Place {
  int block = -1;
  int64_t begin = 0;
};

struct Block {
  int root = -1;  // The value whose rows are the block's.
  int first = 0;  // Nodes: from where it is written
  int last = 0;   // to where any of its values is read last.
  int64_t bytes = 0;
  int64_t offset = 0;
};

class Planner {
 public:
  Planner(const Graph& graph, const program::Limits& limits)
      : graph_(graph), limits_(limits), places_(graph.values().size()) {}

  MemoryPlan run();

 private:
  void find_last_uses();
  void place(const Node& node, int index);
  bool dies_for(const Node& node, int index, int input) const;
  int64_t cols(int value) const { return graph_.values()[value].axis.columns(); }
  void share(int value, Place place);
  void open(int value, int index);
  void assign_offsets();

  const Graph& graph_;
  const program::Limits& limits_;
  std::vector<int> last_uses_;  // By value.
  std::vector<Place> places_;   // By value.
  std::vector<Block> blocks_;
  std::vector<std::vector<int>> members_;  // By block: its values so far.
};

void Planner::find_last_uses() {
  last_uses_.resize(graph_.values().size());
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    for (int output : node.outputs) last_uses_[output] = static_cast<int>(i);
    for (int input : node.inputs) {
      const bool kept = node.op == Op::kTopCandidates || last_uses_[input] == kForever;
      last_uses_[input] = kept ? kForever : static_cast<int>(i);
    }
  }
}

// Whether the first output may lie where `input` lies: the same shape, and nobody reads these
// columns afterwards, neither by this name nor through another view.
bool Planner::dies_for(const Node& node, int index, int input) const {
  const ValueInfo& in = graph_.values()[input];
  const ValueInfo& out = graph_.values()[node.outputs[0]];
  if (in.dtype != out.dtype || in.rows != out.rows || cols(input) != cols(node.outputs[0])) {
    return false;
  }
  const Place& place = places_[input];
  for (int other : members_[place.block]) {
    const int64_t begin = places_[other].begin;
    const bool apart = begin + cols(other) <= place.begin || place.begin + cols(input) <= begin;
    if (!apart && last_uses_[other] > index) return false;
    // Another operand in other columns of the same place would be overwritten while it is read.
    const bool operand =
        std::find(node.inputs.begin(), node.inputs.end(), other) != node.inputs.end();
    if (!apart && operand && begin != place.begin) return false;
  }
  return true;
}

void Planner::share(int value, Place place) {
  places_[value] = place;
  Block& block = blocks_[place.block];
  block.last = std::max(block.last, last_uses_[value]);
  members_[place.block].push_back(value);
}

void Planner::open(int value, int index) {
  const ValueInfo& info = graph_.values()[value];
  const int64_t rows = info.rows == program::TOKENS ? limits_.rows() : limits_.outputs();
  const int64_t bytes = rows * cols(value) * dtype_bytes(info.dtype);
  Block block{.root = value, .first = index, .last = last_uses_[value]};
  block.bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  blocks_.push_back(block);
  members_.emplace_back();
  share(value, {static_cast<int>(blocks_.size()) - 1, 0});
}

void Planner::place(const Node& node, int index) {
  if (node.op == Op::kColumns) {
    const Place& parent = places_[node.inputs[0]];
    share(node.outputs[0], {parent.block, parent.begin + node.attributes.columns().begin()});
    return;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    int over = -1;
    for (size_t j = 0; i == 0 && over < 0 && j < node.inputs.size(); ++j) {
      const bool may = operator_traits(node.op).in_place;
      if (may && dies_for(node, index, node.inputs[j])) over = node.inputs[j];
    }
    if (over >= 0) {
      share(node.outputs[i], places_[over]);
    } else {
      open(node.outputs[i], index);
    }
  }
}

void Planner::assign_offsets() {
  std::vector<int> order(blocks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return blocks_[a].bytes > blocks_[b].bytes; });
  std::vector<const Block*> placed;  // By offset.
  for (int id : order) {
    Block& block = blocks_[id];
    if (block.bytes == 0) continue;
    int64_t offset = 0;
    for (const Block* other : placed) {
      if (other->last < block.first || block.last < other->first) continue;
      if (offset + block.bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block.offset = offset;
    const auto after =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [](int64_t value, const Block* other) { return value < other->offset; });
    placed.insert(after, &block);
  }
}

MemoryPlan Planner::run() {
  find_last_uses();
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    place(graph_.nodes()[i], static_cast<int>(i));
  }
  assign_offsets();
  MemoryPlan plan;
  for (size_t value = 0; value < places_.size(); ++value) {
    LOCKSTEP_CHECK(places_[value].block >= 0);
    const Block& block = blocks_[places_[value].block];
    const int64_t element = dtype_bytes(graph_.values()[value].dtype);
    plan.placements.push_back({.offset_bytes = block.offset + places_[value].begin * element,
                               .stride = cols(block.root)});
  }
  for (const Block& block : blocks_) {
    plan.arena_bytes = std::max(plan.arena_bytes, block.offset + block.bytes);
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const program::Limits& limits) {
  return Planner(graph, limits).run();
}

}  // namespace lockstep
