// SPDX-License-Identifier: Apache-2.0
// How many KV pages fit, and that a large pool costs nothing before it is used.
#include "worker/state.h"

#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/tiny_program.h"

namespace lockstep {
namespace {

// Of layer_program(): keys and values of 16 positions in whole vectors of float32.
constexpr int64_t kPageBytes = 2 * 16 * 16 * 4;

TEST(StateTest, CountsPagesByTheMemoryGiven) {
  const program::Program program = layer_program();
  const Bindings bindings = bind(program, cpu_backend()).value();
  ASSERT_EQ(page_bytes_of(program, bindings), kPageBytes);
  EXPECT_EQ(pages_that_fit(program, bindings,
                           {.memory_bytes = 5 * kPageBytes + kPageBytes - 1, .max_pages = 100}),
            5);
  EXPECT_EQ(pages_that_fit(program, bindings, {.memory_bytes = 1 << 30, .max_pages = 100}), 100);
  EXPECT_EQ(pages_that_fit(program, bindings,
                           {.memory_bytes = 1 << 30, .free_bytes = kPageBytes, .max_pages = 9}),
            1);
}

TEST(StateTest, LeavesAFifthAndSharesWithTheRanksOfItsHost) {
  const program::Program program = layer_program();
  const Bindings bindings = bind(program, cpu_backend()).value();
  EXPECT_EQ(pages_that_fit(program, bindings, {.free_bytes = kPageBytes * 100, .max_pages = 1000}),
            80);
  EXPECT_EQ(pages_that_fit(program, bindings,
                           {.free_bytes = kPageBytes * 100, .ranks_here = 4, .max_pages = 1000}),
            20);
  EXPECT_EQ(pages_that_fit(program, bindings,
                           {.free_bytes = kPageBytes * 100,
                            .total_bytes = kPageBytes * 100,
                            .weight_bytes = kPageBytes * 40,
                            .ranks_here = 2,
                            .max_pages = 1000}),
            8);
  EXPECT_EQ(pages_that_fit(program, bindings,
                           {.free_bytes = kPageBytes * 100,
                            .total_bytes = kPageBytes * 100,
                            .weight_bytes = kPageBytes * 60,
                            .ranks_here = 2,
                            .max_pages = 1000}),
            0);
}

TEST(StateTest, NeverHasMorePagesThanSequencesCanFill) {
  const program::Program layer = layer_program(), tiny = tiny_program();
  EXPECT_EQ(pages_that_fit(layer, bind(layer, cpu_backend()).value(), {}), 4 * 4);
  EXPECT_EQ(pages_that_fit(tiny, bind(tiny, cpu_backend()).value(), {.max_pages = 7}), 7);
}

TEST(StateTest, ReservesALargePoolWithoutTakingIt) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer leaves no room for 1 TiB of addresses";
#endif
  const program::Program program = layer_program();
  const Bindings bindings = bind(program, cpu_backend()).value();
  const int64_t pages = (int64_t{1} << 40) / kPageBytes;  // 1 TiB.
  const std::unique_ptr<Device> device = host_device();
  absl::StatusOr<State> state = State::allocate(program, bindings, *device, pages);
  ASSERT_EQ(message_of(state.status()), "");
  const StateView& view = state->view(0);
  EXPECT_EQ(view.pages, pages);
  view.data[(pages - 1) * view.page_bytes] = std::byte{1};
  EXPECT_EQ(view.data[view.page_bytes], std::byte{0});
}

}  // namespace
}  // namespace lockstep
