// SPDX-License-Identifier: Apache-2.0
// One mapping for all layers, a layer's pages side by side.
#include "worker/state.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "worker/bindings.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using program::Program;

// Page ids are int32.
constexpr int64_t kMostPages = std::numeric_limits<int32_t>::max();

int64_t layer_page_bytes(const Program& program, const program::State& state) {
  return kv_page_bytes(program.limits().page_tokens(), state.kv_heads(), state.head_dim(),
                       dtype_of(state.dtype()));
}

}  // namespace

int64_t page_bytes_of(const Program& program) {
  int64_t bytes = 0;
  for (const program::State& state : program.states()) bytes += layer_page_bytes(program, state);
  return bytes;
}

int64_t pages_that_fit(const Program& program, const PageBudget& budget) {
  const program::Limits& limits = program.limits();
  const int64_t pages_a_sequence =
      (limits.context() + limits.page_tokens() - 1) / limits.page_tokens();
  int64_t pages = std::min(kMostPages, pages_a_sequence * limits.sequences());
  // The coordinator knows better: it may keep prefixes of sequences that are over.
  if (budget.max_pages > 0) pages = std::min(kMostPages, budget.max_pages);
  const int64_t page_bytes = page_bytes_of(program);
  if (page_bytes == 0) return pages;

  int64_t bytes = budget.memory_bytes;
  if (bytes == 0) {
    // Ranks that share the memory may be loading still: what is free now is not all ours, and what
    // they have not taken yet is theirs.
    bytes = std::numeric_limits<int64_t>::max();
    if (budget.free_bytes > 0) bytes = budget.free_bytes / budget.ranks_here;
    if (budget.total_bytes > 0) {
      const int64_t share = budget.total_bytes / budget.ranks_here - budget.weight_bytes;
      bytes = std::min(bytes, std::max<int64_t>(share, 0));
    }
    bytes = static_cast<int64_t>(static_cast<double>(bytes) * budget.fraction);
  } else if (budget.free_bytes > 0) {
    bytes = std::min(bytes, budget.free_bytes);
  }
  return std::min(pages, bytes / page_bytes);
}

absl::StatusOr<State> State::allocate(const Program& program, Device& device, int64_t pages) {
  State state;
  state.pages_ = pages;
  ASSIGN_OR_RETURN(state.memory_,
                   allocate_memory(device, pages * page_bytes_of(program), "KV pages"));
  std::byte* data = state.memory_.data();
  for (const program::State& layer : program.states()) {
    const int64_t page_bytes = layer_page_bytes(program, layer);
    state.views_.push_back({.data = data,
                            .page_bytes = page_bytes,
                            .pages = pages,
                            .page_tokens = program.limits().page_tokens(),
                            .dtype = dtype_of(layer.dtype())});
    data += pages * page_bytes;
  }
  return state;
}

}  // namespace lockstep
