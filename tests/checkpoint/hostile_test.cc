// SPDX-License-Identifier: Apache-2.0
// Files truncated anywhere and headers with flipped bits give an error or the same tensors, never a
// crash. All real files open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "checkpoint/checkpoint.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/files/test_data.h"

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

// The sizes to which a file is truncated, largest first: each position in the header, and `places`
// random positions in the data.
std::vector<int64_t> cuts_of(const std::string& bytes, int places) {
  const int64_t end = header_end(bytes);
  std::vector<int64_t> cuts;
  for (int64_t cut = 0; cut <= end; ++cut) cuts.push_back(cut);
  std::mt19937_64 random(4);
  for (int i = 0; i < places; ++i) {
    cuts.push_back(end + static_cast<int64_t>(random() % (bytes.size() - end)));
  }
  std::sort(cuts.rbegin(), cuts.rend());
  return cuts;
}

void expect_refused_wherever_cut(const fs::path& folder, const fs::path& path) {
  std::stringstream whole;
  whole << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = whole.str();
  for (const int64_t cut : cuts_of(bytes, 1000)) {
    fs::resize_file(path, cut);
    const auto checkpoint = Checkpoint::open(folder);
    ASSERT_FALSE(checkpoint.ok()) << cut;
    ASSERT_THAT(message_of(checkpoint.status()), testing::StartsWith(path.string())) << cut;
    ASSERT_THAT(message_of(checkpoint.status()), testing::Not(testing::HasSubstr("\n"))) << cut;
  }
  write_test_file(path, bytes);
  EXPECT_TRUE(Checkpoint::open(folder).ok());
}

TEST(HostileTest, AFileTruncatedAnywhereIsANamedError) {
  const TempFolder folder;
  write_safetensors(folder.path() / "model.safetensors", sample());
  expect_refused_wherever_cut(folder.path(), folder.path() / "model.safetensors");
}

TEST(HostileTest, AShardTruncatedAnywhereIsANamedError) {
  const TempFolder folder;
  TestTensors first = sample(), second;
  for (const char* layer : {"2", "3"}) {
    for (const char* name : {".mlp.up_proj.weight", ".norm.weight", ".empty"}) {
      second.insert(first.extract(std::string("model.layers.") + layer + name));
    }
  }
  write_shards(folder.path(), {first, second});
  for (const char* name : {"model-00001-of-00002", "model-00002-of-00002"}) {
    expect_refused_wherever_cut(folder.path(),
                                folder.path() / (name + std::string(".safetensors")));
  }
}

// True if a model would accept the tensors: all of `wanted` exist with their shapes.
bool has_the_weights(const Checkpoint& checkpoint, const std::vector<TensorInfo>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const TensorInfo& tensor) {
    const TensorInfo* found = checkpoint.find(tensor.name);
    return tensor.rows == 0 ||
           (found != nullptr && found->shape == tensor.shape && widens(found->dtype));
  });
}

// A text of the tensors, sorted by name. Tensors without elements are left out: a flipped bit in
// the name of such a tensor changes no weight.
std::string listing_of_weights(std::vector<TensorInfo> tensors) {
  std::erase_if(tensors, [](const TensorInfo& tensor) { return tensor.rows == 0; });
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  return listing(tensors);
}

TEST(HostileTest, FlippedHeaderBitsGiveAnErrorOrTheSameWeights) {
  constexpr uint64_t kSeed = 20240611;
  std::printf("bit flips: seed %llu\n", static_cast<unsigned long long>(kSeed));
  std::mt19937_64 random(kSeed);
  const TempFolder folder;
  const std::string bytes = safetensors_bytes(sample());
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  const std::string header = bytes.substr(8, header_end(bytes) - 8);
  const auto original = parse_safetensors_header(header, file_bytes, "m");
  ASSERT_TRUE(original.ok()) << original.status();
  int identical = 0, refused = 0, refused_by_model = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string flipped = bytes;
    const uint64_t bit = random() % (header.size() * 8);
    flipped[8 + bit / 8] = static_cast<char>(flipped[8 + bit / 8] ^ (1 << bit % 8));
    const auto parsed = parse_safetensors_header(std::string_view(flipped).substr(8, header.size()),
                                                 file_bytes, "m");
    if (!parsed.ok()) {
      ++refused;
      ASSERT_THAT(message_of(parsed.status()), testing::StartsWith("m: ")) << "bit " << bit;
      continue;
    }
    write_test_file(folder.path() / "model.safetensors", flipped);
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    if (has_the_weights(*checkpoint, *original)) {
      ++identical;
      ASSERT_EQ(listing_of_weights(*parsed), listing_of_weights(*original)) << "bit " << bit;
    } else {
      ++refused_by_model;
    }
  }
  std::printf("refused %d, refused by the model %d, identical %d\n", refused, refused_by_model,
              identical);
  EXPECT_GT(refused, 5000);
  EXPECT_GT(refused_by_model, 0);
  EXPECT_GT(identical, 0);
}

TEST(HostileTest, FlippedLengthBitsAreRefused) {
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
    // Even if the bytes are a valid header, it has no tensors, so the file has too many bytes.
    const auto parsed = parse_safetensors_header(header, 1000, "m");
    ASSERT_FALSE(parsed.ok()) << header;
    ASSERT_THAT(message_of(parsed.status()), testing::StartsWith("m: ")) << header;
  }
}

// Sums all elements, so that every byte of a real file is read once.
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
