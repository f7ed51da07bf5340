// SPDX-License-Identifier: Apache-2.0
// Workers with their threads, and a test as the coordinator; no gRPC, so that ThreadSanitizer sees
// all of the code.
#include "worker/session/session.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/files/safetensors_writer.h"
#include "tests/support/tiny_program.h"
#include "tests/worker/session/connection.h"

namespace lockstep {
namespace {

struct Pair {
  PersistentWorker persistent[2];
  Connection a{&persistent[0]}, b{&persistent[1]};

  void form(uint64_t epoch) {
    const std::string group = group_name();
    a.send(assign(epoch, shared_layer_program(0, 2), group));
    b.send(assign(epoch, shared_layer_program(1, 2), group));
    for (Connection* one : {&a, &b}) {
      ASSERT_TRUE(one->reply().has_ready());
      one->send(start(epoch));
    }
  }
};

TEST(SessionTest, TwoRanksMeetLoadAndRunSteps) {
  Pair pair;
  pair.form(1);
  for (uint64_t number = 1; number <= 3; ++number) {
    for (Connection* one : {&pair.a, &pair.b}) one->send(step(1, number));
    for (Connection* one : {&pair.a, &pair.b}) {
      const cluster::WorkerMessage message = one->next();
      EXPECT_EQ(message.epoch(), 1u);
      EXPECT_EQ(message.result().step(), number) << message.failure().message();
    }
  }
  EXPECT_EQ(pair.a.end(), absl::OkStatus());
  EXPECT_EQ(pair.b.end(), absl::OkStatus());
}

TEST(SessionTest, RanksAtTheSamePointReportTheSameProgress) {
  Pair pair;
  pair.form(1);
  uint64_t progress[2];
  for (Connection* one : {&pair.a, &pair.b}) {
    one->send(cluster::CoordinatorMessage());  // This version knows no such message.
    one->send(step(1, 1));
  }
  for (int i = 0; i < 2; ++i) {
    Connection& one = i == 0 ? pair.a : pair.b;
    EXPECT_TRUE(one.next().has_result());
    one.link().drop_heartbeats();
    progress[i] = one.heartbeat_until([](const auto&) { return true; }).progress();
  }
  EXPECT_EQ(progress[0], progress[1]);
  EXPECT_GT(progress[0], kStepsProgress + 10);
}

TEST(SessionTest, AnAbortReachesARankThatWaitsInACollectiveAndItsWeightsAreKept) {
  Pair pair;
  pair.form(1);
  pair.a.send(step(1, 1));
  pair.a.wait_until_it_waits();
  for (Connection* one : {&pair.a, &pair.b}) one->send(abort_of(1));
  const std::string group = group_name();
  pair.a.send(assign(2, shared_layer_program(0, 2), group));
  pair.b.send(assign(2, shared_layer_program(1, 2), group));
  for (Connection* one : {&pair.a, &pair.b}) {
    const cluster::WorkerMessage message = one->next();  // No load progress comes before Ready.
    EXPECT_TRUE(message.has_ready()) << message.ShortDebugString();
    EXPECT_EQ(message.epoch(), 2u);
  }
}

TEST(SessionTest, AnAbortReachesARankThatWaitsForItsPeersToMeet) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  worker.send(assign(1, layer_program(0, 2)));
  worker.wait_until_it_waits();
  worker.send(abort_of(1));
  EXPECT_GT(worker.ready(assign(2, layer_program())).pages(), 0);
}

TEST(SessionTest, WeightsOutliveTheConnection) {
  PersistentWorker persistent;
  bool loaded = false;
  Connection first(&persistent);
  const cluster::Ready before = first.ready(assign(1, layer_program()), &loaded);
  EXPECT_TRUE(loaded);
  EXPECT_EQ(first.end(), absl::OkStatus());
  Connection second(&persistent);
  const cluster::Ready after = second.ready(assign(1, layer_program()), &loaded);
  EXPECT_FALSE(loaded);
  EXPECT_EQ(after.contents(), before.contents());
  second.send(start(1));
  second.send(step(1, 1));
  EXPECT_TRUE(second.next().has_result());
}

TEST(SessionTest, AnotherProgramWithTheSameWeightsReadsNoWeights) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  bool loaded = false;
  worker.ready(assign(1, layer_program()), &loaded);
  EXPECT_TRUE(loaded);
  program::Program other = layer_program();
  other.set_model("of another name");
  worker.ready(assign(2, other), &loaded);
  EXPECT_FALSE(loaded);
  worker.send(start(2));
  worker.send(step(2, 1));
  EXPECT_TRUE(worker.next().has_result());
}

TEST(SessionTest, WeightsSurviveAnEpochThatEndsBeforeItsRanksMeet) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  bool loaded = false;
  worker.ready(assign(1, layer_program()), &loaded);
  worker.send(assign(2, layer_program(0, 2)));
  worker.wait_until_it_waits();
  worker.send(abort_of(2));
  worker.ready(assign(3, layer_program()), &loaded);
  EXPECT_FALSE(loaded);
  worker.send(start(3));
  worker.send(step(3, 1));
  EXPECT_TRUE(worker.next().has_result());
}

TEST(SessionTest, KeptWeightsGetThePagesOfTheNewAssignment) {
  PersistentWorker persistent;
  bool loaded = false;
  Connection first(&persistent);
  EXPECT_EQ(first.ready(assign(1, layer_program())).pages(), 4);
  EXPECT_EQ(first.end(), absl::OkStatus());
  Connection second(&persistent);  // To a coordinator that restarted with another --kv-memory.
  cluster::CoordinatorMessage more = assign(1, layer_program());
  more.mutable_assignment()->set_max_pages(9);
  EXPECT_EQ(second.ready(more, &loaded).pages(), 9);
  EXPECT_FALSE(loaded);
  cluster::CoordinatorMessage fewer = assign(2, layer_program());
  fewer.mutable_assignment()->set_kv_memory_bytes(2 * 2048);  // Two pages.
  EXPECT_EQ(second.ready(fewer, &loaded).pages(), 2);
  EXPECT_FALSE(loaded);
  second.send(start(2, 2));
  second.send(step(2, 1));
  EXPECT_TRUE(second.next().has_result());
}

TEST(SessionTest, AnAssignmentCanRequestAReloadOfKeptWeights) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  bool loaded = false;
  worker.ready(assign(1, layer_program()));
  cluster::CoordinatorMessage again = assign(2, layer_program());
  again.mutable_assignment()->set_reload(true);
  worker.ready(again, &loaded);
  EXPECT_TRUE(loaded);
}

// Writes a checkpoint with every tensor that the program needs.
void write_checkpoint(const std::filesystem::path& folder, const program::Program& program,
                      uint32_t seed) {
  TestTensors tensors;
  for (const program::Weight& weight : program.weights()) {
    for (const program::Piece& piece : weight.pieces()) {
      TestTensor& tensor = tensors[piece.source()];
      tensor.shape.assign(piece.source_shape().begin(), piece.source_shape().end());
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      tensor.values.clear();
      for (int64_t i = 0; i < count; ++i) {
        seed = seed * 1664525 + 1013904223;
        tensor.values.push_back(static_cast<float>(seed >> 8) / (1 << 24) - 0.5f);
      }
    }
  }
  write_safetensors(folder / "model.safetensors", tensors);
}

TEST(SessionTest, ASurvivorReloadsARewrittenCheckpointAndReportsNewContents) {
  const TempFolder folder;
  const auto of_checkpoint = [&folder](uint64_t epoch) {
    cluster::CoordinatorMessage message = assign(epoch, layer_program());
    message.mutable_assignment()->set_random_weights(false);
    message.mutable_assignment()->set_checkpoint(folder.path().string());
    return message;
  };
  const auto logits = [](Connection& worker, uint64_t epoch) {
    worker.send(start(epoch));
    worker.send(step(epoch, 1));
    return worker.next().result().outputs(0).logits();
  };
  write_checkpoint(folder.path(), layer_program(), 1);
  PersistentWorker persistent, fresh;
  Connection survivor(&persistent);
  const std::string before = survivor.ready(of_checkpoint(1)).contents();
  const std::string old_logits = logits(survivor, 1);
  EXPECT_EQ(survivor.ready(of_checkpoint(2)).contents(), before);

  std::filesystem::remove(folder.path() / "model.safetensors");
  write_checkpoint(folder.path(), layer_program(), 2);
  Connection rejoining(&fresh);
  const std::string after = rejoining.ready(of_checkpoint(3)).contents();
  EXPECT_NE(after, before);
  EXPECT_EQ(survivor.ready(of_checkpoint(3)).contents(), after);
  const std::string new_logits = logits(survivor, 3);
  EXPECT_NE(new_logits, old_logits);
  EXPECT_EQ(new_logits, logits(rejoining, 3));
}

// --- Ends of the session.

TEST(SessionTest, ARefusalIsTheConnectionsError) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  cluster::CoordinatorMessage refusal;
  refusal.mutable_refusal()->set_reason("install one version");
  worker.send(refusal);
  EXPECT_EQ(worker.join(), absl::PermissionDeniedError("install one version"));
}

TEST(SessionTest, ARefusedStreamIsTheConnectionsError) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  worker.link().refusal = absl::PermissionDeniedError("wrong token");
  EXPECT_EQ(worker.end(), absl::PermissionDeniedError("wrong token"));
}

TEST(SessionTest, AWorkerInACollectiveCanBeStopped) {
  Pair pair;
  pair.form(1);
  pair.a.send(step(1, 1));
  pair.a.wait_until_it_waits();
  pair.a.stop();
  EXPECT_EQ(pair.a.join(), absl::OkStatus());
}

TEST(SessionTest, AStoppedWorkerSendsAGoodbyeBeforeItEnds) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  std::thread signal([&] { worker.stop(); });
  EXPECT_TRUE(worker.next().has_goodbye());
  EXPECT_EQ(worker.end(), absl::OkStatus());
  signal.join();
}

TEST(SessionTest, AWorkerStopsWhileTheCoordinatorReadsNothing) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  worker.ready(assign(1, layer_program()));
  worker.send(start(1));
  worker.link().stall();
  worker.send(step(1, 1));
  worker.stop();
  EXPECT_EQ(worker.join(), absl::OkStatus());
}

}  // namespace
}  // namespace lockstep
