// SPDX-License-Identifier: Apache-2.0
// A program that validate() accepts can be bound, loaded and stepped without out-of-bounds access.
// Run it under AddressSanitizer, too.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <random>

#include "base/status.h"
#include "proto/validate/validate.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/single.h"
#include "worker/steps/executor.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

using program::Program;

// True if the program is small enough to be loaded thousands of times.
bool is_small(const Program& program) {
  const auto bindings = bind(program, cpu_backend());
  if (!bindings.ok()) return true;  // Loading refuses the program.
  return plan_weights(program, *bindings).bytes < 1 << 20 &&
         buffer_bytes(program, *bindings, 1) < 1 << 20 && program.limits().rows() <= 64;
}

// True if the program was loaded and a step ran.
bool load_and_step(const Program& program) {
  cluster::Assignment assignment;
  *assignment.mutable_program() = program;
  assignment.set_random_weights(true);
  assignment.set_kv_memory_bytes(1 << 20);
  assignment.set_max_pages(8);
  auto worker = Worker::load(assignment, single_collective(), {});
  if (!worker.ok() || !(*worker)->start((*worker)->pages_possible()).ok()) return false;
  bool ran = false;
  for (const int32_t token : {0, 63, 99, static_cast<int32_t>(program.vocab()) - 1}) {
    cluster::Step step;
    add_rows(step, {token, 0, token}, 0, {0});
    ran |= (*worker)->step(step).ok();
    cluster::Step next;
    add_rows(next, {token}, 3, {0});
    ran |= (*worker)->step(next).ok();
  }
  return ran;
}

TEST(BindingFuzzTest, AcceptedProgramsAreSafeToRun) {
  constexpr uint32_t seed = 20261122;
  std::mt19937 random(seed);
  const google::protobuf::LogSilencer quiet;  // Silences warnings about names that are not UTF-8.
  const std::string valid = layer_program().SerializeAsString();
  int accepted = 0, ran = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = valid;
    bytes[random() % bytes.size()] =
        static_cast<char>(random() % 4 == 0 ? random() : random() % 16);
    Program program;
    if (!program.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    if (!validate(program).ok() || program.ranks() != 1 || !is_small(program)) continue;
    // Loading allocates memory and takes milliseconds, so only some programs run.
    if (accepted++ % 8 == 0) ran += load_and_step(program);
  }
  EXPECT_GT(ran, 0);
  std::printf("%d of 20000 accepted, %d ran, seed %u\n", accepted, ran, seed);
}

}  // namespace
}  // namespace lockstep
