// SPDX-License-Identifier: Apache-2.0
// A start with the same facts as an earlier one reads that start's proof from a file; any other
// start tries the kernels. A damaged file costs only time.
#include "worker/kernel_choice/proof_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/status.h"
#include "base/threads/thread_pool.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/tiny_program.h"
#include "tests/worker/kernel_choice/fake_linears.h"
#include "worker/kernel_choice/proven_kernels.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kDepth = 40;

program::Program one_linear(const Backend& backend, int64_t cols) {
  ProgramBuilder b(0, 1, 100, kDepth);
  const int x = b.value("x", kDepth, program::TOKENS, program::BF16);
  const int w = b.weight("w", program::LINEAR_WEIGHT, cols, kDepth, 0, cols, program::BF16);
  b.add(program::LINEAR, {x}, {w}, {b.value("y", cols)});
  b.program.set_numeric_class(backend.numeric_class);
  b.program.mutable_limits()->set_rows(64);
  return b.program;
}

int calls = 0;  // Calls of the kernel under proof.
const char* counted(const KernelArgs& args) {
  ++calls;
  return fake_right(args);
}

// Starts of a worker, one after the other.
struct Starts {
  TempFolder temp;
  FakeBackend fake{{fake_entry("right", counted)}};
  std::vector<std::string> wanted = {};

  // Returns the chosen kernel's name. Then `calls` is how often the kernel under proof was called.
  std::string start(int64_t cols = 20) {
    calls = 0;
    ThreadPool pool(1);
    std::vector<std::string> kernels;
    const auto bindings = bind_proven(
        one_linear(fake.backend, cols), fake.backend, WeightSource(RandomWeights(7)), pool,
        {.folder = temp.path().string(), .wanted = wanted, .now_ns = fake_now}, &kernels);
    if (!bindings.ok()) return message_of(bindings.status());
    EXPECT_EQ(kernels.size(), 1u);
    return bindings->kernels.back()->name;
  }
  // The only proof file.
  fs::path file() const {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(temp.path())) {
      if (entry.path().extension() == ".lockstep-proof") found = entry.path();
    }
    return found;
  }
  std::string text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(file()) << text; }
};

TEST(ProofCacheTest, TheSecondStartTriesNoKernel) {
  Starts starts;
  EXPECT_EQ(starts.start(), "right");
  EXPECT_GT(calls, 0);
  EXPECT_EQ(starts.start(), "right");
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(starts.start(21), "right");  // A linear of another shape needs its own proof.
  EXPECT_GT(calls, 0);
}

TEST(ProofCacheTest, ARefusalIsRemembered) {
  Starts starts;
  starts.fake.table[0].run = fake_wrong_column;
  EXPECT_EQ(starts.start(), "plain");
  starts.fake.table[0].run = counted;  // The kernel is right now, but its build seems the same.
  EXPECT_EQ(starts.start(), "plain");
  EXPECT_EQ(calls, 0);
}

TEST(ProofCacheTest, ADamagedFileIsIgnoredAndReplaced) {
  Starts starts;
  ASSERT_EQ(starts.start(), "right");
  const std::string whole = starts.text();
  ASSERT_GT(whole.size(), 200u);
  std::string flipped = whole, other = whole;
  flipped[whole.size() - 30] = static_cast<char>(flipped[whole.size() - 30] ^ 1);
  other.replace(other.find("lockstep-proof 1"), 16, "lockstep-proof 2");
  for (const std::string& text :
       {std::string(), whole.substr(0, whole.size() / 2), whole.substr(0, 10), flipped, other,
        std::string("\n"), whole + "x"}) {
    starts.write(text);
    EXPECT_EQ(starts.start(), "right");
    EXPECT_GT(calls, 0);
    EXPECT_EQ(starts.start(), "right");  // The file was rewritten.
    EXPECT_EQ(calls, 0);
  }
}

TEST(ProofCacheTest, TheKeyCoversAllThatAProofDependsOn) {
  const TempFolder temp;
  const FakeBackend fake({fake_entry("right", fake_right)});
  const program::Program program = one_linear(fake.backend, 20);
  const Proof proof = untried(program, fake.backend);
  const ProofFacts facts = proof_facts(program, fake.backend);
  EXPECT_NE(facts.build, "");
  std::set<std::string> paths;
  const auto add = [&](const ProofFacts& some) {
    paths.insert(ProofCache(temp.path().string(), some, proof).path());
  };
  add(facts);
  for (std::string ProofFacts::*part :
       {&ProofFacts::device, &ProofFacts::driver, &ProofFacts::numeric_class, &ProofFacts::build}) {
    ProofFacts other = facts;
    other.*part += "2";
    add(other);
  }
  ProofFacts more_rows = facts;
  ++more_rows.max_rows;
  add(more_rows);
  EXPECT_EQ(paths.size(), 6u);
}

// A kernel that ends the process twice is not tried a third time.
TEST(ProofCacheTest, AKernelThatEndsTheProcessTwiceIsRefused) {
  Starts starts;
  const program::Program program = one_linear(starts.fake.backend, 20);
  for (const int ends : {1, 2}) {
    Proof proof = untried(program, starts.fake.backend);
    ProofCache cache(starts.temp.path().string(), proof_facts(program, starts.fake.backend), proof);
    cache.load(&proof);
    EXPECT_EQ(proof.trials[0].verdict, Verdict::kUnproven) << ends;
    cache.begin(proof.trials[0], proof);  // The process ends here.
  }
  EXPECT_EQ(starts.start(), "plain");
  EXPECT_EQ(calls, 0);
  EXPECT_THAT(starts.text(), HasSubstr("the process ended 2 times while it was tried; delete "));
}

TEST(ProofCacheTest, OneProcessWritesAndTheOthersRead) {
  Starts starts;
  ASSERT_EQ(starts.start(), "right");
  const std::string before = starts.text();
  const program::Program program = one_linear(starts.fake.backend, 20);
  Proof proof = untried(program, starts.fake.backend);
  const ProofFacts facts = proof_facts(program, starts.fake.backend);
  const ProofCache first(starts.temp.path().string(), facts, proof);
  ProofCache second(starts.temp.path().string(), facts, proof);
  second.begin(proof.trials[0], proof);
  second.store(proof, {});
  EXPECT_EQ(starts.text(), before);
  second.load(&proof);
  EXPECT_EQ(proof.trials[0].verdict, Verdict::kProven);
}

TEST(ProofCacheTest, AnUnwritableFolderCostsOnlyTime) {
  ThreadPool pool(1);
  const FakeBackend fake({fake_entry("right", fake_right)});
  std::vector<std::string> kernels;
  EXPECT_TRUE(bind_proven(one_linear(fake.backend, 20), fake.backend,
                          WeightSource(RandomWeights(7)), pool,
                          {.folder = "/proc/none", .now_ns = fake_now}, &kernels)
                  .ok());
  EXPECT_THAT(kernels, ElementsAre("right,plain"));
}

TEST(ProofCacheTest, StoredProofsAreListed) {
  Starts starts;
  starts.wanted = {"plain"};
  ASSERT_EQ(starts.start(), "plain");
  std::ofstream(starts.temp.path() / "other.lockstep-proof") << "nothing";
  const std::vector<ProofRecord> records = read_proofs(starts.temp.path().string());
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].facts.numeric_class, "fake.v1");
  ASSERT_EQ(records[0].lines.size(), 2u);
  EXPECT_EQ(records[0].lines[0].shape, "linear bf16 [20, 40]");
  EXPECT_FALSE(records[0].lines[0].chosen);
  EXPECT_TRUE(records[0].lines[1].chosen);
  ASSERT_EQ(records[0].lines[0].trial.rows.size(), 4u);
  EXPECT_GT(records[0].lines[0].trial.rows[0].error, 0);
  EXPECT_EQ(records[0].lines[0].trial.rows[0].ns, 10'000);
}

TEST(ComputesAsTest, ChosenKernelsAreCompared) {
  const std::vector<std::string> has = {"a,b", "c"};
  EXPECT_TRUE(computes_as(has, {}));
  EXPECT_TRUE(computes_as(has, std::vector<std::string>{"a", "c"}));
  EXPECT_FALSE(computes_as(has, std::vector<std::string>{"b", "c"}));
  EXPECT_FALSE(computes_as(has, std::vector<std::string>{"a"}));
}

}  // namespace
}  // namespace lockstep::testing
