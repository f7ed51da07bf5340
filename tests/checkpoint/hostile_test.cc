// SPDX-License-Identifier: Apache-2.0
// Gates R15 and R16: files cut anywhere and headers with flipped bits give an error or the very
// same tensors, never a crash. And real files all open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <tuple>

#include "checkpoint/checkpoint.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/test_data.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TestTensors sample() {
  TestTensors tensors;
  const std::vector<float> values(600, 1.5f);
  for (int i = 0; i < 4; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    tensors[layer + ".mlp.up_proj.weight"] = {"BF16", {20, 30}, values};
    tensors[layer + ".norm.weight"] = {"F32", {600}, values};
    tensors[layer + ".empty"] = {"F16", {0, 3}, {}};
  }
  return tensors;
}

int64_t header_end(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return static_cast<int64_t>(8 + length);
}

std::string listing(const std::vector<TensorInfo>& tensors) {
  std::string text;
  for (const TensorInfo& t : tensors) {
    text +=
        fmt::format("{} {} {} {}..{}\n", t.name, t.dtype_name, shape_text(t.shape), t.begin, t.end);
  }
  return text;
}

TEST(HostileTest, AFileCutAnywhereIsANamedError) {
  const TempFolder folder;
  const fs::path path = folder.path() / "model.safetensors";
  const std::string bytes = safetensors_bytes(sample());
  const int64_t end = header_end(bytes);
  std::vector<int64_t> cuts;
  for (int64_t cut = 0; cut <= end; ++cut) cuts.push_back(cut);
  std::mt19937_64 random(4);
  for (int i = 0; i < 1000; ++i) {
    cuts.push_back(end + static_cast<int64_t>(random() % (bytes.size() - end)));
  }
  std::sort(cuts.rbegin(), cuts.rend());
  write_test_file(path, bytes);
  for (const int64_t cut : cuts) {
    fs::resize_file(path, cut);
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_FALSE(checkpoint.ok()) << cut;
    ASSERT_THAT(message_of(checkpoint.status()), testing::StartsWith(path.string())) << cut;
  }
  write_test_file(path, bytes);
  EXPECT_TRUE(Checkpoint::open(folder.path()).ok());
}

// A bit of a name or of the metadata may flip unseen: that is then a file of other names. All that
// says where and what the bytes are must be the same.
std::string without_names(const std::vector<TensorInfo>& tensors) {
  std::vector<TensorInfo> nameless = tensors;
  for (TensorInfo& tensor : nameless) tensor.name.clear();
  std::sort(nameless.begin(), nameless.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  return listing(nameless);
}

TEST(HostileTest, FlippedBitsGiveAnErrorOrConsistentTensors) {
  constexpr uint64_t kSeed = 20240611;
  std::printf("bit flips: seed %llu\n", static_cast<unsigned long long>(kSeed));
  std::mt19937_64 random(kSeed);
  const std::string bytes = safetensors_bytes(sample());
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  const std::string header = bytes.substr(8, header_end(bytes) - 8);
  const auto original = parse_safetensors_header(header, file_bytes, "m");
  ASSERT_TRUE(original.ok()) << original.status();
  int identical = 0, renamed = 0, reshaped = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string flipped = header;
    const uint64_t bit = random() % (header.size() * 8);
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto parsed = parse_safetensors_header(flipped, file_bytes, "m");
    if (!parsed.ok()) {
      ++refused;
    } else if (listing(*parsed) == listing(*original)) {
      ++identical;
    } else if (without_names(*parsed) == without_names(*original)) {
      ++renamed;
    } else {
      // BF16 [20, 30] may become F16 [20, 30] or the like: same bytes, same place.
      ++reshaped;
      ASSERT_EQ(parsed->size(), original->size());
      ASSERT_EQ(parsed->back().end, file_bytes);
    }
  }
  std::printf("refused %d, identical %d, renamed %d, reshaped %d\n", refused, identical, renamed,
              reshaped);
  EXPECT_GT(refused, 0);
}

TEST(HostileTest, FlippedBitsOfTheLengthAreRefused) {
  const TempFolder folder;
  const std::string bytes = safetensors_bytes(sample());
  for (int bit = 0; bit < 64; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write_test_file(folder.path() / "model.safetensors", flipped);
    EXPECT_FALSE(Checkpoint::open(folder.path()).ok()) << bit;
  }
}

TEST(HostileTest, RandomBytesAreRefused) {
  std::mt19937_64 random(99);
  for (int i = 0; i < 10'000; ++i) {
    std::string header = "{";
    for (uint64_t n = random() % 60; n > 0; --n) {
      header += "{}[]\":,0123 \\uwdtypeshape"[random() % 25];
    }
    (void)parse_safetensors_header(header, 1000, "m");
  }
}

// The sum of all elements, so that every byte of a real file is read once.
void expect_readable(const Checkpoint& checkpoint) {
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (!widens(tensor.dtype)) continue;
    std::vector<float> out(tensor.rows * tensor.cols);
    const absl::Status status =
        checkpoint.read(tensor, {0, tensor.rows, 0, tensor.cols}, false, out.data(), tensor.cols);
    ASSERT_TRUE(status.ok()) << status;
  }
}

TEST(RealFilesTest, EveryGoldenCheckpointOpensAndReads) {
  LOCKSTEP_NEEDS_TEST_DATA("goldens");
  int opened = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(test_data("goldens"))) {
    if (!entry.is_directory()) continue;
    const auto checkpoint = Checkpoint::open(entry.path());
    if (!checkpoint.ok() && !fs::exists(entry.path() / "config.json")) continue;
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_FALSE(checkpoint->tensors().empty());
    expect_readable(*checkpoint);
    ++opened;
  }
  std::printf("%d checkpoints\n", opened);
  EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace lockstep
