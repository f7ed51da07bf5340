// SPDX-License-Identifier: Apache-2.0
// All layers share one piece of memory: the pages or blocks of a layer follow those of the layer
// before it.
#include "worker/steps/state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

using program::Program;

// Page ids are int32.
constexpr int64_t kMaxPages = std::numeric_limits<int32_t>::max();

// Less memory is not worth a thread.
constexpr int64_t kMinPrefaultBytes = int64_t{16} << 20;

int64_t layer_page_bytes(const Program& program, const Bindings& bindings, int index) {
  const program::State& state = program.states(index);
  const KernelEntry* kernel = bindings.states[index];
  if (kernel == nullptr || state.has_block()) return 0;
  return kernel->page_bytes({.tokens = program.limits().page_tokens(),
                             .kv_heads = state.kv().kv_heads(),
                             .k_dim = state.kv().k_dim(),
                             .v_dim = state.kv().v_dim(),
                             .dtype = dtype_of(state.dtype())});
}

// The bytes of one block of a layer; 0 if it has pages.
int64_t layer_block_bytes(const Program& program, const Bindings& bindings, int index) {
  const program::Block& block = program.states(index).block();
  if (bindings.states[index] == nullptr) return 0;
  return align_memory(block.rows() * block.cols() * static_cast<int64_t>(sizeof(float)));
}

// The bytes of this rank's memory that KV pages and state blocks may take.
int64_t room_for_state(const PageBudget& budget) {
  int64_t bytes = budget.memory_bytes;
  if (bytes > 0) return budget.free_bytes > 0 ? std::min(bytes, budget.free_bytes) : bytes;
  // Ranks that share the memory may still be loading, and will take a part of what is free now.
  bytes = std::numeric_limits<int64_t>::max();
  if (budget.free_bytes > 0) bytes = budget.free_bytes / budget.ranks_here;
  if (budget.total_bytes > 0) {
    const int64_t share = budget.total_bytes / budget.ranks_here - budget.weight_bytes;
    bytes = std::min(bytes, std::max<int64_t>(share, 0));
  }
  return static_cast<int64_t>(static_cast<double>(bytes) * budget.fraction);
}

}  // namespace

int64_t page_bytes_of(const Program& program, const Bindings& bindings) {
  int64_t bytes = 0;
  for (int i = 0; i < program.states_size(); ++i) bytes += layer_page_bytes(program, bindings, i);
  return bytes;
}

int64_t block_bytes_of(const Program& program, const Bindings& bindings) {
  int64_t bytes = 0;
  for (int i = 0; i < program.states_size(); ++i) bytes += layer_block_bytes(program, bindings, i);
  return bytes;
}

StateRoom state_that_fits(const Program& program, const Bindings& bindings,
                          const PageBudget& budget) {
  const program::Limits& limits = program.limits();
  const int64_t pages_a_sequence =
      (limits.context() + limits.page_tokens() - 1) / limits.page_tokens();
  StateRoom room = {.pages = std::min(kMaxPages, pages_a_sequence * limits.sequences()),
                    .sequences = limits.sequences(),
                    .spare = budget.spare};
  // The coordinator's number is better: it can include pages for prefixes of finished sequences.
  if (budget.max_pages > 0) room.pages = std::min(kMaxPages, budget.max_pages);
  const int64_t page_bytes = page_bytes_of(program, bindings);
  const int64_t block_bytes = block_bytes_of(program, bindings);
  int64_t bytes = room_for_state(budget) - budget.spare * (page_bytes + block_bytes);
  bytes = std::max<int64_t>(bytes, 0);
  if (block_bytes > 0) {
    // Blocks get at most half of the memory, or one sequence's blocks if half is too little for
    // these.
    const int64_t max = page_bytes > 0 ? std::max(bytes / 2, block_bytes) : bytes;
    room.sequences = std::min(room.sequences, std::min(max, bytes) / block_bytes);
    bytes -= room.sequences * block_bytes;
  }
  if (page_bytes > 0) room.pages = std::min(room.pages, bytes / page_bytes);
  return room;
}

absl::StatusOr<State> State::allocate(const Program& program, const Bindings& bindings,
                                      Device& device, const StateRoom& room) {
  State state;
  state.room_ = room;
  const int64_t bytes = (room.pages + room.spare) * page_bytes_of(program, bindings) +
                        (room.sequences + room.spare) * block_bytes_of(program, bindings);
  ASSIGN_OR_RETURN(state.memory_, allocate_memory(device, bytes, "KV pages"));
  std::byte* data = state.memory_.data();
  std::vector<StateView> pages;
  for (int i = 0; i < program.states_size(); ++i) {
    const bool block = program.states(i).has_block();
    const StateView view = {.data = data,
                            .page_bytes = block ? layer_block_bytes(program, bindings, i)
                                                : layer_page_bytes(program, bindings, i),
                            .pages = (block ? room.sequences : room.pages) + room.spare,
                            .page_tokens = program.limits().page_tokens(),
                            .dtype = dtype_of(program.states(i).dtype())};
    data += view.pages * view.page_bytes;
    state.views_.push_back(view);
    if (!block) pages.push_back(view);
  }
  if (device.is_host() && room.pages * page_bytes_of(program, bindings) >= kMinPrefaultBytes) {
    state.prefaulter_ = std::make_unique<PagePrefaulter>(std::move(pages));
  }
  return state;
}

}  // namespace lockstep
