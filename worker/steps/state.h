// SPDX-License-Identifier: Apache-2.0
// KV pages and state blocks of all layers of this rank. The coordinator decides which sequence has
// which page; a page id means the same page in every layer. A sequence has the state blocks of its
// slot.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "worker/host/memory.h"
#include "worker/host/page_prefaulter.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/kernels/kernel.h"
#include "worker/steps/state_room.h"

namespace lockstep {

// Bytes of one page over all layers, as their kernels size them; 0 if no layer has pages.
int64_t page_bytes_of(const program::Program& program, const Bindings& bindings);

// Bytes of one sequence's state blocks over all layers; 0 if no layer has blocks.
int64_t block_bytes_of(const program::Program& program, const Bindings& bindings);

// The facts that decide how many pages and blocks fit.
struct PageBudget {
  int64_t memory_bytes = 0;  // The maximum; 0: `fraction` of the free memory.
  int64_t free_bytes = 0;    // Free now, with the weights loaded; 0: unknown.
  int64_t total_bytes = 0;   // The GPU's, machine's or container's; 0: unknown.
  int64_t weight_bytes = 0;  // The weights of this rank.
  int ranks_here = 1;        // Ranks that share this memory.
  double fraction = 0.8;     // The part of this rank's memory to take, if memory_bytes is 0.
  int64_t max_pages = 0;     // The maximum that can be of use; 0: no limit.
  int64_t spare = 0;         // See StateRoom.
};
// The pages and sequences that fit; either may be 0. If there are pages, blocks get at most half of
// the memory, but always one sequence's blocks if these fit.
StateRoom state_that_fits(const program::Program& program, const Bindings& bindings,
                          const PageBudget& budget);

class State {
 public:
  // On the host it only reserves addresses: the system gives memory when pages and blocks are first
  // written. If the state is large, a PagePrefaulter touches pages before steps write to them.
  static absl::StatusOr<State> allocate(const program::Program& program, const Bindings& bindings,
                                        Device& device, const StateRoom& room);

  const StateRoom& room() const { return room_; }
  // By index into Program.states. Valid as long as the State is, moves included.
  const StateView& view(int state) const { return views_[state]; }
  // From now on pages with ids below this are in use.
  void use_pages(int64_t pages) {
    if (prefaulter_ != nullptr) prefaulter_->use(pages);
  }

 private:
  StateRoom room_;
  DeviceMemory memory_;
  std::vector<StateView> views_;
  std::unique_ptr<PagePrefaulter> prefaulter_;  // Destroyed before memory_.
};

}  // namespace lockstep
