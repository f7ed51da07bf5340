// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "checkpoint/checkpoint.h"
#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

const std::vector<TensorSpec> kSpecs = {
    {"a", "F32", {2, 3}}, {"b", "BF16", {4}}, {"c", "I8", {5, 1}}, {"d", "F32", {}}};

// Fills every tensor with a byte of its own: writes the second half of the tensor, then the first.
void fill(CheckpointWriter& writer) {
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    const std::string bytes(stored_bytes(kSpecs[i]), static_cast<char>('a' + i));
    const auto half = static_cast<int64_t>(bytes.size() / 2);
    const auto rest = static_cast<int64_t>(bytes.size()) - half;
    ASSERT_TRUE(writer.write(i, half, bytes.data(), rest).ok());
    ASSERT_TRUE(writer.write(i, 0, bytes.data(), half).ok());
  }
}

void expect_filled(const std::filesystem::path& folder) {
  const auto checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_EQ(checkpoint->tensors().size(), kSpecs.size());
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    const TensorInfo* tensor = checkpoint->find(kSpecs[i].name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->shape, kSpecs[i].shape);
    EXPECT_EQ(tensor->dtype_name, kSpecs[i].dtype);
    std::string bytes(tensor->end - tensor->begin, '\0');
    ASSERT_TRUE(
        checkpoint->read_stored(*tensor, {0, tensor->rows, 0, tensor->cols}, bytes.data()).ok());
    EXPECT_EQ(bytes, std::string(bytes.size(), static_cast<char>('a' + i)));
  }
}

// Limits the size of the files that this process writes while the object lives.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }

 private:
  void (*signal_)(int);
  rlimit before_{};
};

TEST(CheckpointWriterTest, OneFileHoldsEveryTensorForAnyOrderOfWriting) {
  const TempFolder folder;
  auto writer = CheckpointWriter::create(folder.path(), kSpecs, 1 << 20);
  ASSERT_TRUE(writer.ok()) << writer.status();
  fill(*writer);
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "model.safetensors.index.json"));
  expect_filled(folder.path());
}

TEST(CheckpointWriterTest, ShardsStayWithinTheSizeLimitAndHaveAnIndex) {
  const TempFolder folder;
  auto writer = CheckpointWriter::create(folder.path(), kSpecs, 13);  // Bytes of shards: 24, 13, 4.
  ASSERT_TRUE(writer.ok()) << writer.status();
  fill(*writer);
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "model-00003-of-00003.safetensors"));
  expect_filled(folder.path());
}

TEST(CheckpointWriterTest, AnExistingFileIsNeverOverwritten) {
  const TempFolder folder;
  write_test_file(folder.path() / "model.safetensors", "mine");
  const auto writer = CheckpointWriter::create(folder.path(), kSpecs, 1 << 20);
  EXPECT_THAT(writer.status().message(),
              HasSubstr("model.safetensors: could not create this file"));
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "model.safetensors"), 4u);
}

TEST(CheckpointWriterTest, AFullDiskIsAnErrorOfOneLineThatNamesTheFile) {
  const TempFolder folder;
  auto writer = CheckpointWriter::create(folder.path(), {{"large", "F32", {1 << 20}}}, 1);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const SmallFiles limit(1 << 20);  // A file at this limit fails like one on a full disk.
  EXPECT_TRUE(writer->write(0, 0, "12345678", 8).ok());
  const absl::Status status = writer->write(0, (4 << 20) - 8, "12345678", 8);
  EXPECT_THAT(status.message(), HasSubstr("model.safetensors: could not write 8 bytes: "));
}

}  // namespace
}  // namespace lockstep
