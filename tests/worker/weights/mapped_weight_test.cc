// SPDX-License-Identifier: Apache-2.0
// Embeddings that stay in the checkpoint's file have the same bits as in memory; embeddings that
// cannot stay there are loaded into memory.
#include "worker/weights/mapped_weight.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/numbers/float16.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/single.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

struct Type {
  const char* name;
  program::DType dtype;
};
constexpr Type kTypes[] = {{"F32", program::F32}, {"BF16", program::BF16}, {"F16", program::F16}};

// The tiny program with its own checkpoint, whose embedding is stored in a given type.
struct Model {
  TempFolder folder;
  program::Program program;

  Model(const Type& embedding, int rank = 0, int ranks = 1) : program(tiny_program(rank, ranks)) {
    TestTensors tensors;
    float value = 0.37f;
    for (program::Weight& weight : *program.mutable_weights()) {
      const auto& shape = weight.pieces(0).source_shape();
      TestTensor tensor{.shape = {shape.begin(), shape.end()}};
      int64_t count = 1;
      for (const int64_t size : shape) count *= size;
      for (int64_t i = 0; i < count; ++i) {
        tensor.values.push_back(value = 3.7f * value * (1 - value));
      }
      if (weight.role() == program::EMBEDDING) {
        tensor.dtype = embedding.name;
        weight.set_dtype(embedding.dtype);
      }
      tensors[weight.pieces(0).source()] = std::move(tensor);
    }
    write_safetensors(folder.path() / "model.safetensors", tensors);
  }
  WeightSource open() const { return WeightSource(Checkpoint::open(folder.path()).value()); }

  // The logits of some tokens; sets *bytes to the memory of the weights.
  std::vector<float> run(bool in_file, int64_t* bytes) const {
    cluster::Assignment assignment;
    *assignment.mutable_program() = program;
    assignment.set_checkpoint(folder.path().string());
    assignment.set_embedding_in_file(in_file);
    assignment.set_max_pages(16);
    const auto worker = Worker::load(assignment, single_collective(), {});
    EXPECT_TRUE(worker.ok()) << worker.status();
    EXPECT_TRUE((*worker)->start(8).ok());
    *bytes = (*worker)->weight_bytes();
    std::vector<float> logits;
    uint64_t number = 0;
    for (const int32_t token : {3, 99, 0, 42}) {
      cluster::Step step;
      step.set_step(++number);
      add_rows(step, {token}, 0, {0});
      const auto result = (*worker)->step(step);
      EXPECT_TRUE(result.ok()) << result.status();
      for (const float logit : floats_of(result->outputs(0).logits())) logits.push_back(logit);
    }
    return logits;
  }
};

TEST(MappedWeightTest, AnEmbeddingInTheFileHasTheBitsOfOneInMemoryAndTakesNoMemory) {
  for (const Type& type : kTypes) {
    const Model model(type);
    int64_t in_memory = 0, in_file = 0;
    const std::vector<float> wanted = model.run(false, &in_memory);
    EXPECT_FALSE(wanted.empty());
    EXPECT_EQ(model.run(true, &in_file), wanted) << type.name;
    EXPECT_LE(in_file, in_memory - 100 * 8 * (type.dtype == program::F32 ? 4 : 2)) << type.name;
  }
}

TEST(MappedWeightTest, ARanksSliceConsistsOfItsRowsInTheFile) {
  const Model model(kTypes[1], 1, 2);
  Bindings bindings = bind(model.program, cpu_backend(Isa::kPortable)).value();
  const WeightSource source = model.open();
  const std::vector<MappedWeight> mapped = map_embeddings(model.program, source, &bindings);
  ASSERT_EQ(mapped.size(), 1u);
  const program::Weight& weight = model.program.weights(mapped[0].weight);
  EXPECT_EQ(weight.role(), program::EMBEDDING);
  EXPECT_FALSE(bindings.used[mapped[0].weight]);
  ASSERT_LT(weight.rows(), 100);
  std::vector<float> wanted(weight.rows() * weight.cols());
  ASSERT_TRUE(source.read_rows(weight, 0, weight.rows(), wanted.data(), weight.cols()).ok());
  for (int64_t row = 0; row < weight.rows(); ++row) {
    for (int64_t col = 0; col < weight.cols(); ++col) {
      EXPECT_EQ(bf16_to_float(mapped[0].view.row<uint16_t>(row)[col]),
                wanted[row * weight.cols() + col]);
    }
  }
}

// True if nothing is mapped, and all weights are still loaded.
bool stays_in_memory(const program::Program& program, const WeightSource& source) {
  Bindings bindings = bind(program, cpu_backend(Isa::kPortable)).value();
  const std::vector<bool> used = bindings.used;
  return map_embeddings(program, source, &bindings).empty() && bindings.used == used;
}

TEST(MappedWeightTest, AnEmbeddingThatTheFileStoresDifferentlyIsLoaded) {
  const Model model(kTypes[1]);
  EXPECT_FALSE(stays_in_memory(model.program, model.open()));
  EXPECT_TRUE(stays_in_memory(model.program, WeightSource(RandomWeights(1))));
  for (const program::DType dtype : {program::F32, program::F16, program::Q8}) {
    program::Program other = model.program;
    for (program::Weight& weight : *other.mutable_weights()) {
      if (weight.role() == program::EMBEDDING) weight.set_dtype(dtype);
    }
    EXPECT_TRUE(stays_in_memory(other, model.open())) << dtype;
  }
}

TEST(MappedWeightTest, AMisalignedEmbeddingIsLoaded) {
  const Model model(kTypes[1]);
  const std::filesystem::path path = model.folder.path() / "model.safetensors";
  std::ifstream stream(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const std::string header = bytes.substr(8, length) + " ";  // Moves all tensors by one byte.
  const std::string data = bytes.substr(8 + length);
  std::ofstream(path, std::ios::binary) << safetensors_bytes(header, data);
  EXPECT_TRUE(stays_in_memory(model.program, model.open()));
}

}  // namespace
}  // namespace lockstep
