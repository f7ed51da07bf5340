// SPDX-License-Identifier: Apache-2.0
// The number of KV pages that fit; a large pool takes no memory before it is used.
#include "worker/steps/state.h"

#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/tiny_program.h"

namespace lockstep {
namespace {

// A page of layer_program(): keys and values of 16 positions in whole vectors of float32.
constexpr int64_t kPageBytes = 2 * 16 * 16 * 4;

int64_t pages_of(const program::Program& program, const Bindings& bindings,
                 const PageBudget& budget) {
  return state_that_fits(program, bindings, budget).pages;
}

// layer_program() with a convolution's block in addition to attention's pages.
program::Program program_with_block() {
  program::Program program = layer_program();
  program::State& state = *program.add_states();
  state.set_name("conv");
  state.set_dtype(program::F32);
  state.mutable_block()->set_rows(2);
  state.mutable_block()->set_cols(100);
  return program;
}
constexpr int64_t kBlockBytes = 832;  // In whole cache lines.

Bindings bindings_with_block(const program::Program& program) {
  Bindings bindings = bind(layer_program(), cpu_backend()).value();
  bindings.states.resize(static_cast<size_t>(program.states_size()), bindings.states[0]);
  return bindings;
}

TEST(StateTest, BlocksOfEverySequenceAreCountedBeforePages) {
  const program::Program program = program_with_block();
  const Bindings bindings = bindings_with_block(program);
  ASSERT_EQ(block_bytes_of(program, bindings), kBlockBytes);
  ASSERT_EQ(page_bytes_of(program, bindings), kPageBytes);
  const auto room = [&](int64_t bytes) {
    return state_that_fits(program, bindings, {.memory_bytes = bytes, .max_pages = 100});
  };
  const StateRoom all = room(4 * kBlockBytes + 10 * kPageBytes);
  EXPECT_EQ(all.sequences, 4);  // limits.sequences
  EXPECT_EQ(all.pages, 10);
  EXPECT_EQ(room(5 * kBlockBytes).sequences, 2) << "half of the memory is for pages";
  EXPECT_EQ(room(kBlockBytes + kPageBytes).sequences, 1);
  EXPECT_EQ(room(kBlockBytes + kPageBytes).pages, 1);
  EXPECT_EQ(room(kBlockBytes - 1).sequences, 0);
}

TEST(StateTest, EverySlotHasItsOwnBlockAfterThePages) {
  const program::Program program = program_with_block();
  const Bindings bindings = bindings_with_block(program);
  const std::unique_ptr<Device> device = host_device();
  absl::StatusOr<State> state =
      State::allocate(program, bindings, *device, {.pages = 3, .sequences = 2});
  ASSERT_EQ(message_of(state.status()), "");
  EXPECT_EQ(state->view(1).pages, 2);
  EXPECT_EQ(state->view(1).page_bytes, kBlockBytes);
  EXPECT_EQ(state->view(1).data, state->view(0).data + 3 * kPageBytes);
  EXPECT_EQ(static_cast<void*>(state->view(1).block(1)), state->view(1).data + kBlockBytes);
}

TEST(StateTest, ASparePageAndBlockAreCountedAndFollowTheOthers) {
  const program::Program program = program_with_block();
  const Bindings bindings = bindings_with_block(program);
  const StateRoom room = state_that_fits(
      program, bindings,
      {.memory_bytes = 5 * kBlockBytes + 11 * kPageBytes, .max_pages = 100, .spare = 1});
  EXPECT_EQ(room.sequences, 4);
  EXPECT_EQ(room.pages, 10);
  const std::unique_ptr<Device> device = host_device();
  absl::StatusOr<State> state = State::allocate(program, bindings, *device, room);
  ASSERT_EQ(message_of(state.status()), "");
  EXPECT_EQ(state->room().pages, 10);
  EXPECT_EQ(state->view(1).data, state->view(0).data + 11 * kPageBytes);
  EXPECT_EQ(state->view(1).pages, 5);
}

TEST(StateTest, PagesAreCountedByTheGivenMemory) {
  const program::Program program = layer_program();
  const Bindings bindings = bind(program, cpu_backend()).value();
  ASSERT_EQ(page_bytes_of(program, bindings), kPageBytes);
  EXPECT_EQ(pages_of(program, bindings,
                     {.memory_bytes = 5 * kPageBytes + kPageBytes - 1, .max_pages = 100}),
            5);
  EXPECT_EQ(pages_of(program, bindings, {.memory_bytes = 1 << 30, .max_pages = 100}), 100);
  EXPECT_EQ(pages_of(program, bindings,
                     {.memory_bytes = 1 << 30, .free_bytes = kPageBytes, .max_pages = 9}),
            1);
}

TEST(StateTest, PagesTakeFourFifthsOfTheMemoryWhichTheHostsRanksShare) {
  const program::Program program = layer_program();
  const Bindings bindings = bind(program, cpu_backend()).value();
  EXPECT_EQ(pages_of(program, bindings, {.free_bytes = kPageBytes * 100, .max_pages = 1000}), 80);
  EXPECT_EQ(pages_of(program, bindings,
                     {.free_bytes = kPageBytes * 100, .ranks_here = 4, .max_pages = 1000}),
            20);
  EXPECT_EQ(pages_of(program, bindings,
                     {.free_bytes = kPageBytes * 100,
                      .total_bytes = kPageBytes * 100,
                      .weight_bytes = kPageBytes * 40,
                      .ranks_here = 2,
                      .max_pages = 1000}),
            8);
  EXPECT_EQ(pages_of(program, bindings,
                     {.free_bytes = kPageBytes * 100,
                      .total_bytes = kPageBytes * 100,
                      .weight_bytes = kPageBytes * 60,
                      .ranks_here = 2,
                      .max_pages = 1000}),
            0);
}

TEST(StateTest, PagesAreLimitedToWhatSequencesCanFill) {
  const program::Program layer = layer_program(), tiny = tiny_program();
  EXPECT_EQ(pages_of(layer, bind(layer, cpu_backend()).value(), {}), 4 * 4);
  EXPECT_EQ(pages_of(tiny, bind(tiny, cpu_backend()).value(), {.max_pages = 7}), 7);
}

TEST(StateTest, ALargePoolIsReservedWithoutTakingMemory) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer leaves no room for 1 TiB of addresses";
#endif
  const program::Program program = layer_program();
  const Bindings bindings = bind(program, cpu_backend()).value();
  const int64_t pages = (int64_t{1} << 40) / kPageBytes;  // 1 TiB.
  const std::unique_ptr<Device> device = host_device();
  absl::StatusOr<State> state = State::allocate(program, bindings, *device, {.pages = pages});
  ASSERT_EQ(message_of(state.status()), "");
  const StateView& view = state->view(0);
  EXPECT_EQ(view.pages, pages);
  view.data[(pages - 1) * view.page_bytes] = std::byte{1};
  EXPECT_EQ(view.data[view.page_bytes], std::byte{0});
}

}  // namespace
}  // namespace lockstep
