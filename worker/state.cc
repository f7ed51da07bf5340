// SPDX-License-Identifier: Apache-2.0
// One mapping for all layers, a layer's pages side by side.
#include "worker/state.h"

#include <algorithm>
#include <limits>

#include "base/status.h"

namespace lockstep {
namespace {

using program::Program;

// Page ids are int32.
constexpr int64_t kMostPages = std::numeric_limits<int32_t>::max();

int64_t layer_page_bytes(const Program& program, const Bindings& bindings, int index) {
  const program::State& state = program.states(index);
  const KernelEntry* kernel = bindings.states[index];
  if (kernel == nullptr) return 0;
  return kernel->page_bytes({.tokens = program.limits().page_tokens(),
                             .kv_heads = state.kv().kv_heads(),
                             .k_dim = state.kv().k_dim(),
                             .v_dim = state.kv().v_dim(),
                             .dtype = dtype_of(state.dtype())});
}

}  // namespace

int64_t page_bytes_of(const Program& program, const Bindings& bindings) {
  int64_t bytes = 0;
  for (int i = 0; i < program.states_size(); ++i) bytes += layer_page_bytes(program, bindings, i);
  return bytes;
}

int64_t pages_that_fit(const Program& program, const Bindings& bindings, const PageBudget& budget) {
  const program::Limits& limits = program.limits();
  const int64_t pages_a_sequence =
      (limits.context() + limits.page_tokens() - 1) / limits.page_tokens();
  int64_t pages = std::min(kMostPages, pages_a_sequence * limits.sequences());
  // The coordinator knows better: it may keep prefixes of sequences that are over.
  if (budget.max_pages > 0) pages = std::min(kMostPages, budget.max_pages);
  const int64_t page_bytes = page_bytes_of(program, bindings);
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

absl::StatusOr<State> State::allocate(const Program& program, const Bindings& bindings,
                                      Device& device, int64_t pages) {
  State state;
  state.pages_ = pages;
  ASSIGN_OR_RETURN(state.memory_,
                   allocate_memory(device, pages * page_bytes_of(program, bindings), "KV pages"));
  std::byte* data = state.memory_.data();
  for (int i = 0; i < program.states_size(); ++i) {
    const int64_t page_bytes = layer_page_bytes(program, bindings, i);
    state.views_.push_back({.data = data,
                            .page_bytes = page_bytes,
                            .pages = pages,
                            .page_tokens = program.limits().page_tokens(),
                            .dtype = dtype_of(program.states(i).dtype())});
    data += pages * page_bytes;
  }
  return state;
}

}  // namespace lockstep
