// SPDX-License-Identifier: Apache-2.0
// Values that share memory form a block: a value, views of its columns, results computed in place,
// this rank's part of a gathered value. Blocks are placed largest first, each at the lowest offset
// that is free during its life ("greedy by size", Pisarchyk and Lee, arXiv 2001.03288). A block
// shared by ranks lives from the first write until the collective after which all ranks have read
// it. A shared block has the same size and life on every rank, so all ranks place it at the same
// offset.
#include "sharding/lowering/plan_memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/numbers/quantization.h"
#include "operators/schema/schema.h"
#include "proto/row_domains.h"

namespace lockstep {
namespace {

constexpr int64_t kAlignment = 256;  // Bytes: the fastest for GPUs. A cache line has 64.
constexpr int kForever = std::numeric_limits<int>::max();

// Columns [begin, begin + cols) of a block.
struct Place {
  int block = -1;
  int64_t begin = 0;
};

struct Block {
  int root = -1;  // The value whose rows the block has.
  int first = 0;  // The node that writes first.
  int last = 0;   // The node that reads any of the block's values last.
  int64_t bytes = 0;
  int64_t offset = 0;
  bool shared = false;
};

class Planner {
 public:
  Planner(const Graph& graph, const program::Limits& limits, int rank)
      : graph_(graph), limits_(limits), rank_(rank), places_(graph.values().size()) {}

  MemoryPlan run();

 private:
  void find_last_uses();
  void find_homes();
  bool may_share(int node) const;
  void place(const Node& node, int index);
  bool dies_for(const Node& node, int index, int input) const;
  int64_t cols(int value) const { return graph_.values()[value].axis.columns(); }
  void share(int value, Place place);
  void open(int value, int index, bool shared = false);
  void outlive_readers();
  int64_t assign_offsets(bool shared);

  const Graph& graph_;
  const program::Limits& limits_;
  const int rank_;
  std::vector<int> last_uses_;      // By value.
  std::vector<const Node*> homes_;  // By value: the all_gather in whose output it is computed.
  std::vector<int> collectives_;    // Indices of nodes, ascending.
  std::vector<Place> places_;       // By value.
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

bool is_collective(Op op) { return op == Op::kAllGather || op == Op::kAllReduce; }

// If a kernel makes a rank's part of a gathered value, and the gather is the part's last reader,
// the part is computed directly in the gather's output, which is called the part's home.
void Planner::find_homes() {
  homes_.resize(graph_.values().size());
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (!is_collective(node.op)) continue;
    collectives_.push_back(static_cast<int>(i));
    const int part = node.inputs[0], maker = graph_.values()[part].node;
    const Op made_by = graph_.nodes()[maker].op;
    const bool by_kernel = !is_collective(made_by) && made_by != Op::kColumns;
    const bool last = last_uses_[part] == static_cast<int>(i);
    if (node.op == Op::kAllGather && by_kernel && last && may_share(maker)) homes_[part] = &node;
  }
}

// Whether this node may write shared memory. Before the first collective of a step, other ranks may
// not yet have read what the previous step wrote there.
bool Planner::may_share(int node) const {
  return !collectives_.empty() && collectives_.front() < node;
}

// Whether the first output may use the memory of `input`: both have the same shape, and no later
// node reads these columns as `input` or through another view.
bool Planner::dies_for(const Node& node, int index, int input) const {
  const ValueInfo& in = graph_.values()[input];
  const ValueInfo& out = graph_.values()[node.outputs[0]];
  if (in.dtype != out.dtype || in.rows != out.rows || cols(input) != cols(node.outputs[0])) {
    return false;
  }
  const Place& place = places_[input];
  if (blocks_[place.block].shared) return false;
  for (int other : members_[place.block]) {
    const int64_t begin = places_[other].begin;
    const bool apart = begin + cols(other) <= place.begin || place.begin + cols(input) <= begin;
    if (!apart && last_uses_[other] > index) return false;
    // Another operand in other columns of the same block would be overwritten while it is read.
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

void Planner::open(int value, int index, bool shared) {
  const ValueInfo& info = graph_.values()[value];
  const int64_t rows = max_rows(graph_.row_domains[info.rows], limits_);
  const int64_t bytes = rows * row_bytes(info.dtype, cols(value));
  Block block{.root = value, .first = index, .last = last_uses_[value], .shared = shared};
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
    const int output = node.outputs[i];
    if (places_[output].block >= 0) continue;  // Gathered; already placed.
    if (const Node* gather = homes_[output]; gather != nullptr) {
      open(gather->outputs[0], index, true);
      share(output,
            {places_[gather->outputs[0]].block, gather->attributes.gather().boundaries(rank_)});
      continue;
    }
    int over = -1;
    for (size_t j = 0; i == 0 && over < 0 && j < node.inputs.size(); ++j) {
      const bool may = schema_of(node.op).in_place;
      if (may && dies_for(node, index, node.inputs[j])) over = node.inputs[j];
    }
    if (over >= 0) {
      share(output, places_[over]);
    } else {
      open(output, index, node.op == Op::kAllGather && may_share(index));
    }
  }
}

// Extends shared blocks to the next collective: a rank that runs ahead waits there for the others.
void Planner::outlive_readers() {
  for (Block& block : blocks_) {
    if (!block.shared) continue;
    const auto met = std::upper_bound(collectives_.begin(), collectives_.end(), block.last);
    block.last = met == collectives_.end() ? kForever : *met;
  }
}

// Returns the bytes that the blocks need.
int64_t Planner::assign_offsets(bool shared) {
  int64_t all_bytes = 0;
  std::vector<int> order(blocks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return blocks_[a].bytes > blocks_[b].bytes; });
  std::vector<const Block*> placed;  // By offset.
  for (int id : order) {
    Block& block = blocks_[id];
    if (block.bytes == 0 || block.shared != shared) continue;
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
    all_bytes = std::max(all_bytes, block.offset + block.bytes);
  }
  return all_bytes;
}

MemoryPlan Planner::run() {
  find_last_uses();
  find_homes();
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    place(graph_.nodes()[i], static_cast<int>(i));
  }
  outlive_readers();
  MemoryPlan plan;
  plan.arena_bytes = assign_offsets(false);
  plan.shared_bytes = assign_offsets(true);
  for (size_t value = 0; value < places_.size(); ++value) {
    LOCKSTEP_CHECK(places_[value].block >= 0);
    const Block& block = blocks_[places_[value].block];
    const DType dtype = graph_.values()[value].dtype;
    const int64_t stride = groups_of(dtype, cols(block.root)) * group_elements(dtype);
    plan.placements.push_back(
        {.offset_bytes = block.offset + row_bytes(dtype, places_[value].begin),
         .stride = stride,
         .shared = block.shared});
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const program::Limits& limits, int rank) {
  return Planner(graph, limits, rank).run();
}

}  // namespace lockstep
