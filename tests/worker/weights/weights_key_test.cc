// SPDX-License-Identifier: Apache-2.0
// The key decides which weights may share a file; weights from a file have the bits that were
// packed.
#include "worker/weights/weights_key.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "base/threads/thread_pool.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/tiny_program.h"
#include "worker/weights/weights.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string key_of(const program::Program& program, const WeightSource& source,
                   Isa isa = Isa::kPortable) {
  const auto key = weights_key(program, bind(program, cpu_backend(isa)).value(),
                               source_mark(source, nullptr).value());
  EXPECT_TRUE(key.ok()) << key.status();
  return key.value_or("");
}

program::Program in_kind(program::DType dtype) {
  program::Program program = tiny_program();
  for (program::Weight& weight : *program.mutable_weights()) {
    if (weight.role() != program::BIAS) weight.set_dtype(dtype);
  }
  return program;
}

TEST(WeightsKeyTest, TheKeyDependsOnEveryInputThatAffectsTheBytes) {
  const WeightSource random(RandomWeights(1));
  const std::string key = key_of(tiny_program(), random);
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(key, key_of(tiny_program(), random));
  EXPECT_NE(key, key_of(tiny_program(), WeightSource(RandomWeights(2))));
  EXPECT_NE(key_of(tiny_program(0, 2), random), key_of(tiny_program(1, 2), random));
  EXPECT_NE(key, key_of(in_kind(program::Q8), random));
  program::Program unused = tiny_program();
  unused.mutable_weights(1)->mutable_pieces(0)->set_source("another");
  EXPECT_NE(key, key_of(unused, random));
}

TEST(WeightsKeyTest, TheKeyDependsOnAPackersResultForASmallWeight) {
  const WeightSource random(RandomWeights(1));
  const program::Program program = tiny_program();
  const Bindings bindings = bind(program, cpu_backend(Isa::kPortable)).value();
  KernelEntry changed = *bindings.packers[1];
  changed.pack = [](const PackArgs& args) { static_cast<char*>(args.packed)[0] = 1; };
  Bindings others = bindings;
  others.packers[1] = &changed;
  EXPECT_NE(weights_key(program, bindings, {}).value(), weights_key(program, others, {}).value());
}

// A checkpoint with the tiny program's sources.
struct Source {
  TempFolder folder;
  const program::Program program = tiny_program();

  Source() { write(1); }
  void write(float first) const {
    TestTensors tensors;
    for (const program::Weight& weight : program.weights()) {
      const auto& shape = weight.pieces(0).source_shape();
      TestTensor tensor{.shape = {shape.begin(), shape.end()}};
      int64_t count = 1;
      for (const int64_t size : shape) count *= size;
      for (int64_t i = 0; i < count; ++i) {
        tensor.values.push_back(first + static_cast<float>(i % 17));
      }
      tensors[weight.pieces(0).source()] = std::move(tensor);
    }
    write_safetensors(path(), tensors);
  }
  fs::path path() const { return folder.path() / "model.safetensors"; }
  WeightSource open() const { return WeightSource(Checkpoint::open(folder.path()).value()); }
};

TEST(WeightsKeyTest, ARewrittenFileIsAnotherSource) {
  const Source source;
  const std::string key = key_of(source.program, source.open());
  EXPECT_EQ(key, key_of(source.program, source.open()));
  fs::last_write_time(source.path(), fs::last_write_time(source.path()) + std::chrono::seconds(1));
  EXPECT_NE(key, key_of(source.program, source.open()));
}

// If an image is pulled again or a file is copied by `cp -p`, the inode differs, and perhaps the
// device.
TEST(WeightsKeyTest, ACopyWithTheSameTimesIsTheSameSource) {
  const Source source;
  const std::string key = key_of(source.program, source.open());
  const auto time = fs::last_write_time(source.path());
  fs::copy_file(source.path(), source.folder.path() / "copy");
  fs::rename(source.folder.path() / "copy", source.path());
  fs::last_write_time(source.path(), time);
  EXPECT_EQ(key, key_of(source.program, source.open()));
}

// Archives and images give all files one time, and file systems reuse inodes.
TEST(WeightsKeyTest, OtherWeightsWithTheSameTimeAreAnotherSource) {
  const Source source;
  const std::string key = key_of(source.program, source.open());
  const auto time = fs::last_write_time(source.path());
  source.write(2);
  fs::last_write_time(source.path(), time);
  EXPECT_NE(key, key_of(source.program, source.open()));
}

TEST(WeightsKeyTest, WeightsFromAFileHaveTheSameBits) {
  const Source source;
  const TempFolder folder;
  for (const program::DType dtype : {program::F32, program::Q8, program::Q4}) {
    const program::Program program = in_kind(dtype);
    const Bindings bindings = bind(program, cpu_backend(Isa::kPortable)).value();
    const WeightPlan plan = plan_weights(program, bindings);
    const PackedCache cache({.folder = folder.path().string()},
                            weights_key(program, bindings, {}).value());
    ThreadPool pool(2);
    const std::unique_ptr<Device> device = host_device();
    const auto load = [&](const PackedCache* from) {
      auto weights =
          Weights::load(program, bindings, plan, source.open(), *device, pool, {.cache = from});
      EXPECT_TRUE(weights.ok()) << weights.status();
      const auto bytes = weights->contents();
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    const std::vector<std::byte> packed = load(nullptr);
    EXPECT_EQ(packed, load(&cache));
    ASSERT_TRUE(fs::exists(cache.path()));
    const auto written = fs::last_write_time(cache.path());
    fs::last_write_time(cache.path(), written - std::chrono::hours(1));
    EXPECT_EQ(packed, load(&cache));
    EXPECT_GE(fs::last_write_time(cache.path()), written);  // It was read, and so counts as used.
  }
}

}  // namespace
}  // namespace lockstep
