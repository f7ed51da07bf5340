// SPDX-License-Identifier: Apache-2.0
// Two identities of a checkpoint: stamp() differs if the files differ, and contents() differs if
// the weights differ.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Three tensors; two are larger than the sample that is read of each.
TestTensors three_tensors() {
  TestTensors tensors = {
      {"a", {.shape = {64, 64}}}, {"b", {.shape = {100, 30}}}, {"c", {.shape = {3}}}};
  for (auto& [name, tensor] : tensors) {
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    for (int64_t i = 0; i < count; ++i) tensor.values.push_back(static_cast<float>(i % 97));
  }
  return tensors;
}

// A fine-tune of one matrix: its header and size are those of the original.
TestTensors with_another(const std::string& name) {
  TestTensors tensors = three_tensors();
  for (float& value : tensors[name].values) value += 1;
  return tensors;
}

class IdentityTest : public testing::Test {
 protected:
  IdentityTest() { write_safetensors(path(), three_tensors()); }

  fs::path path(const std::string& folder = ".") const {
    fs::create_directories(folder_.path() / folder);
    return folder_.path() / folder / "model.safetensors";
  }
  Checkpoint open(const std::string& folder = ".") const {
    return Checkpoint::open(path(folder).parent_path()).value();
  }
  // Keeps the time of the file's last change, as archives, images and `touch -r` do.
  void write_in_place(const TestTensors& tensors) const {
    const auto time = fs::last_write_time(path());
    const std::string bytes = safetensors_bytes(tensors);
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    fs::last_write_time(path(), time);
  }

  const TempFolder folder_;
};

TEST_F(IdentityTest, ContentsDifferIfOneTensorDiffers) {
  const std::string contents = open().contents().value();
  for (const std::string name : {"a", "b", "c"}) {
    write_safetensors(path(name), with_another(name));
    EXPECT_NE(open(name).contents().value(), contents) << name;
  }
}

TEST_F(IdentityTest, ContentsAreTheSameForEveryCopy) {
  fs::copy_file(path(), path("copy"));
  fs::last_write_time(path("copy"), fs::last_write_time(path()) + std::chrono::hours(1));
  EXPECT_EQ(open("copy").contents().value(), open().contents().value());
  EXPECT_NE(open("copy").written_at().value(), open().written_at().value());
  EXPECT_NE(open("copy").stamp().value(), open().stamp().value());
}

TEST_F(IdentityTest, AnUnchangedFileKeepsItsStamp) {
  const std::string stamp = open().stamp().value();
  std::ifstream(path()).get();
  EXPECT_EQ(open().stamp().value(), stamp);
}

TEST_F(IdentityTest, AFileRewrittenInPlaceWithItsOldTimesHasAnotherStamp) {
  const Checkpoint before = open();
  const std::string stamp = before.stamp().value(), written_at = before.written_at().value();
  write_in_place(with_another("b"));
  EXPECT_EQ(open().written_at().value(), written_at);
  EXPECT_NE(open().stamp().value(), stamp);
  EXPECT_NE(before.stamp().value(), stamp) << "an open checkpoint sees the change, too";
}

// A process that loads while a copy ends must notice later writes.
TEST_F(IdentityTest, AWriteWithinTheClockTickOfTheStampIsDetected) {
  for (int i = 0; i < 10; ++i) {
    write_in_place(with_another("a"));
    const std::string stamp = open().stamp().value();
    write_in_place(with_another("b"));
    EXPECT_NE(open().stamp().value(), stamp) << i;
  }
}

// File systems reuse inode numbers, but the time of the inode's change then differs.
TEST_F(IdentityTest, AFileThatReplacesAnotherHasAnotherStamp) {
  const std::string stamp = open().stamp().value();
  const auto time = fs::last_write_time(path());
  fs::remove(path());
  write_safetensors(path(), with_another("a"));
  fs::last_write_time(path(), time);
  EXPECT_NE(open().stamp().value(), stamp);
}

TEST_F(IdentityTest, ReadingReportsProgress) {
  int signs = 0;
  EXPECT_TRUE(open().contents([&] { ++signs; }).ok());
  EXPECT_EQ(signs, 3);
}

// Reading a header of many MB takes seconds.
TEST_F(IdentityTest, OpeningALongHeaderReportsProgress) {
  std::string metadata;
  for (int i = 0; i < 20'000; ++i) metadata += fmt::format("{}\"k{}\":\"v\"", i == 0 ? "" : ",", i);
  write_test_file(path("long"), safetensors_bytes("{\"__metadata__\":{" + metadata + "}}", ""));
  int signs = 0;
  EXPECT_TRUE(Checkpoint::open(path("long").parent_path(), [&] { ++signs; }).ok());
  EXPECT_GE(signs, 40'000 / 4096);
}

}  // namespace
}  // namespace lockstep
