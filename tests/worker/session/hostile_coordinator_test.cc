// SPDX-License-Identifier: Apache-2.0
// A hostile coordinator must not harm a worker: every field is checked before it is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/support/tiny_program.h"
#include "tests/worker/session/connection.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(HostileCoordinatorTest, HostileAssignmentsAreRefusedAndTheWorkerSurvives) {
  using Mutation = std::function<void(cluster::Assignment&)>;
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kHuge = int64_t{1} << 62;
  const Mutation mutations[] = {
      [](auto& a) { a.mutable_program()->set_rank(-1); },
      [](auto& a) { a.mutable_program()->set_rank(std::numeric_limits<int32_t>::max()); },
      [](auto& a) { a.mutable_program()->set_rank(1); },
      [](auto& a) { a.mutable_program()->set_ranks(0); },
      [](auto& a) { a.mutable_program()->set_ranks(2); },
      [](auto& a) { a.mutable_program()->set_ranks(std::numeric_limits<int32_t>::max()); },
      [](auto& a) { a.mutable_program()->set_shared_bytes(-5); },
      [](auto& a) { a.mutable_program()->set_shared_bytes(kHuge); },
      [](auto& a) { a.clear_program(); },
      [](auto& a) { a.clear_hosts(); },
      [](auto& a) { a.add_hosts("there"); },
      [](auto& a) { a.clear_devices(); },
      [](auto& a) { a.add_devices("cpu"); },
      [](auto& a) { a.set_kv_memory_bytes(-1); },
      [](auto& a) { a.set_kv_memory_bytes(kMin); },
      [](auto& a) { a.set_kv_memory_bytes(1); },
      [](auto& a) { a.set_max_pages(-1); },
      [](auto& a) { a.set_max_pages(kMin); },
      [](auto& a) { a.set_collective_timeout_ms(-1); },
      [](auto& a) { a.set_collective_timeout_ms(0); },
      [](auto& a) { a.set_collective_timeout_ms(kMin); },
      [](auto& a) { a.set_collective_timeout_ms(kHuge); },
      [](auto& a) { a.set_loading_here(-1); },
      [](auto& a) { a.set_loading_here(2); },
      [](auto& a) {
        a.set_random_weights(false);
        a.set_checkpoint("/nowhere/at/all");
      },
  };
  PersistentWorker persistent;
  Connection worker(&persistent);
  uint64_t epoch = 0;
  for (const Mutation& mutate : mutations) {
    cluster::CoordinatorMessage message = assign(++epoch, layer_program());
    mutate(*message.mutable_assignment());
    const cluster::Failure failure = worker.failure(message);
    EXPECT_FALSE(failure.peer_lost()) << "mutation " << epoch << ": " << failure.message();
    EXPECT_THAT(failure.message(), ::testing::Not(HasSubstr("\n")));
  }
  EXPECT_THAT(worker.failure(assign(0, layer_program())).message(),
              HasSubstr("epoch must be 1 or more"));
  // A number of pages that is too large is valid: it means as many pages as fit.
  cluster::CoordinatorMessage message = assign(++epoch, layer_program());
  message.mutable_assignment()->set_max_pages(kHuge);
  message.mutable_assignment()->set_kv_memory_bytes(1 << 20);
  EXPECT_EQ(worker.ready(message).pages(), 512);
}

TEST(HostileCoordinatorTest, RanksOnDifferentHostsThatCannotMeetAreRefused) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  uint64_t epoch = 0;
  cluster::CoordinatorMessage message = assign(1, layer_program(0, 2));
  cluster::Assignment& assignment = *message.mutable_assignment();
  *assignment.mutable_hosts(1) = "there";
  const auto expect = [&](const std::string& words) {
    message.set_epoch(++epoch);
    EXPECT_THAT(worker.failure(message).message(), HasSubstr(words));
  };
  expect("the data address must be given for each of the 2 ranks, found 0");
  assignment.add_data_addresses("127.0.0.1:1");
  assignment.add_data_addresses("");
  expect("rank 1 and its peers are on different hosts, but it has no data port");
  assignment.set_data_addresses(1, "127.0.0.1:2");
  expect("data_key must have 32 bytes, found 0");
  assignment.set_data_key(std::string(31, 'k'));
  expect("data_key must have 32 bytes, found 31");
  assignment.set_data_key(std::string(32, 'k'));
  expect("rank 0 has no data port for ranks on other hosts: start it with --data-listen");
}

TEST(HostileCoordinatorTest, HostileMessagesOfAnEpochAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  PersistentWorker persistent;
  Connection worker(&persistent);
  uint64_t epoch = 0;
  worker.send(step(0, 1));  // It is dropped, because nothing is assigned yet.
  for (const int64_t pages : {int64_t{0}, int64_t{-1}, kHuge, -kHuge}) {
    worker.ready(assign(++epoch, layer_program()));
    EXPECT_THAT(worker.failure(start(epoch, pages)).message(),
                HasSubstr("KV pages must be 1 to 4"));
  }
  cluster::CoordinatorMessage logits;
  logits.mutable_logits()->set_output(-1);
  for (cluster::CoordinatorMessage early : {step(0, 1), logits}) {
    worker.ready(assign(++epoch, layer_program()));
    early.set_epoch(epoch);
    EXPECT_THAT(worker.failure(early).message(), HasSubstr("before the group was started"));
  }
  cluster::CoordinatorMessage pages = step(0, 1), position = step(0, 1), token = step(0, 1),
                              output = step(0, 1);
  pages.mutable_step()->mutable_sequences(0)->set_pages(0, 1 << 30);
  position.mutable_step()->mutable_sequences(0)->set_first_position(kHuge);
  token.mutable_step()->set_tokens(0, 1 << 30);
  output.mutable_step()->mutable_outputs(0)->set_row(-kHuge);
  for (cluster::CoordinatorMessage wrong : {pages, position, token, output, logits}) {
    worker.ready(assign(++epoch, layer_program()));
    worker.send(start(epoch));
    wrong.set_epoch(epoch);
    EXPECT_EQ(worker.failure(wrong).code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  }
  worker.ready(assign(++epoch, layer_program()));
  worker.send(start(epoch));
  worker.send(step(epoch, 1));
  EXPECT_TRUE(worker.next().has_result());
}

}  // namespace
}  // namespace lockstep
