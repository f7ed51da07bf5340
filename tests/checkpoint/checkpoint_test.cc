// SPDX-License-Identifier: Apache-2.0
// The files that make a checkpoint, the entries of an index, and reads of rectangles, compared with
// the tensors' elements.
#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TestTensor ramp(std::vector<int64_t> shape, const std::string& dtype = "F32") {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  TestTensor tensor{.dtype = dtype, .shape = std::move(shape), .values = {}};
  // Small integers, which every type represents exactly.
  for (int64_t i = 0; i < count; ++i) tensor.values.push_back(static_cast<float>(i % 251 - 125));
  return tensor;
}

std::string problem(const fs::path& folder) {
  return message_of(Checkpoint::open(folder).status());
}

TEST(CheckpointTest, ASingleFileOpens) {
  const TempFolder folder;
  write_safetensors(folder.path() / "model.safetensors",
                    {{"b", ramp({3})}, {"a", ramp({2, 2})}, {"ids", ramp({4}, "I64")}});
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_EQ(checkpoint->tensors().size(), 3u);
  EXPECT_EQ(checkpoint->find("a")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(checkpoint->find("ids")->dtype, DType::kNone);
  EXPECT_EQ(checkpoint->find("c"), nullptr);
  EXPECT_EQ(checkpoint->find(""), nullptr);
}

TEST(CheckpointTest, ShardsOpenByTheirIndex) {
  const TempFolder folder;
  write_shards(folder.path(), {{{"x", ramp({2, 3})}}, {{"a", ramp({4})}, {"z", ramp({1})}}});
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<float> out(4);
  const TensorInfo& a = *checkpoint->find("a");
  ASSERT_TRUE(checkpoint->read(a, {0, 1, 0, 4}, false, out.data(), 4).ok());
  EXPECT_EQ(out, ramp({4}).values);
}

TEST(CheckpointTest, TheOnlyFileOpensUnderAnyName) {
  const TempFolder folder;
  write_safetensors(folder.path() / "rwkv-7.safetensors", {{"a", ramp({1})}});
  EXPECT_TRUE(Checkpoint::open(folder.path()).ok());
  write_safetensors(folder.path() / "other.safetensors", {{"a", ramp({1})}});
  EXPECT_THAT(problem(folder.path()), HasSubstr("found 2 of the last; add the index"));
}

TEST(CheckpointTest, SymbolicLinksAreFollowedAsInTheHubCache) {
  const TempFolder folder;
  fs::create_directory(folder.path() / "blobs");
  fs::create_directory(folder.path() / "snapshot");
  write_safetensors(folder.path() / "blobs/0123", {{"a", ramp({1})}});
  fs::create_symlink("../blobs/0123", folder.path() / "snapshot/model.safetensors");
  EXPECT_TRUE(Checkpoint::open(folder.path() / "snapshot").ok());
}

TEST(CheckpointTest, AFolderWithoutWeightsSaysWhatToDo) {
  const TempFolder folder;
  write_test_file(folder.path() / "pytorch_model.bin", "x");
  EXPECT_THAT(problem(folder.path()), HasSubstr("convert the weights to safetensors"));
  EXPECT_THAT(problem(folder.path() / "none"), HasSubstr("must be the folder of a checkpoint"));
}

class IndexTest : public testing::Test {
 protected:
  void SetUp() override {
    write_safetensors(folder_.path() / "s1.safetensors", {{"a", ramp({1})}});
    write_safetensors(folder_.path() / "s2.safetensors", {{"b", ramp({1})}});
  }
  std::string problem_of(const std::string& index) {
    write_test_file(folder_.path() / "model.safetensors.index.json", index);
    return problem(folder_.path());
  }
  const TempFolder folder_;
};

TEST_F(IndexTest, AnIndexMayNotLeadOutOfTheFolder) {
  EXPECT_EQ(problem_of(R"({"weight_map":{"a":"s1.safetensors"}})"), "");
  for (const char* bad :
       {"../s1.safetensors", "/etc/passwd", "x/s1.safetensors", "..", "", "s1.bin", ".safetensors",
        "..safetensors", "a\\\\b.safetensors", "s1\\u0000.safetensors"}) {
    EXPECT_THAT(problem_of(std::string(R"({"weight_map":{"a":")") + bad + "\"}}"),
                HasSubstr("\"a\": must be the name of a .safetensors file in this folder"))
        << bad;
  }
}

TEST_F(IndexTest, AnIndexHasAMapOfNames) {
  EXPECT_THAT(problem_of("{}"), HasSubstr("weight_map: must be an object, found nothing"));
  EXPECT_THAT(problem_of("[]"), HasSubstr("weight_map: must be an object, found nothing"));
  EXPECT_THAT(problem_of(R"({"weight_map":[]})"), HasSubstr("found an array"));
  EXPECT_THAT(problem_of(R"({"weight_map":{"a":1}})"), HasSubstr("found an integer (1)"));
  EXPECT_THAT(problem_of("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(problem_of(R"({"weight_map":{"a":"s1.safetensors","a":"s2.safetensors"}})"),
              HasSubstr("appears twice"));
}

TEST_F(IndexTest, AnIndexAgreesWithTheShards) {
  EXPECT_THAT(problem_of(R"({"weight_map":{"b":"s1.safetensors"}})"),
              HasSubstr("s1.safetensors: must have the tensor \"b\""));
  EXPECT_THAT(problem_of(R"({"weight_map":{"b":"s1.safetensors","a":"s2.safetensors"}})"),
              HasSubstr("must have the tensor"));
  EXPECT_THAT(problem_of(R"({"weight_map":{"a":"s3.safetensors"}})"),
              HasSubstr("s3.safetensors: missing, but model.safetensors.index.json names it; "
                        "fetch it again"));
}

TEST_F(IndexTest, ATensorInTwoShardsIsRefused) {
  write_safetensors(folder_.path() / "s2.safetensors", {{"a", ramp({1})}, {"b", ramp({1})}});
  EXPECT_THAT(problem_of(R"({"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})"),
              HasSubstr("the tensor \"a\" is in two files, s1.safetensors and s2.safetensors"));
}

// Reads into a matrix with a margin, which must not change.
void expect_rectangle(const Checkpoint& checkpoint, const TestTensor& expected,
                      const TensorInfo& tensor, const Rectangle& want, bool transposed) {
  const int64_t rows = transposed ? want.cols() : want.rows();
  const int64_t cols = transposed ? want.rows() : want.cols();
  const int64_t stride = cols + 3;
  std::vector<float> out(rows * stride + 1, -999.0f);
  const absl::Status status = checkpoint.read(tensor, want, transposed, out.data(), stride);
  ASSERT_TRUE(status.ok()) << status;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < stride; ++c) {
      const int64_t row = want.row_begin + (transposed ? c : r);
      const int64_t col = want.col_begin + (transposed ? r : c);
      const float element = c < cols ? expected.values[row * tensor.cols + col] : -999.0f;
      ASSERT_EQ(out[r * stride + c], element) << r << ", " << c << " " << tensor.name;
    }
  }
}

TEST(CheckpointTest, AnyRectangleOfAnyTypeCanBeRead) {
  const TempFolder folder;
  TestTensors tensors;
  for (const char* dtype : {"F32", "BF16", "F16"}) {
    const std::string name = dtype;
    tensors[name + " small"] = ramp({7, 11}, dtype);
    tensors[name + " wide"] = ramp({5, 9001}, dtype);   // Rows are pages apart.
    tensors[name + " tall"] = ramp({4000, 70}, dtype);  // More than a buffer.
    tensors[name + " deep"] = ramp({3, 4, 5}, dtype);
    tensors[name + " long"] = ramp({300'001}, dtype);  // A row longer than a buffer.
  }
  write_safetensors(folder.path() / "model.safetensors", tensors);
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::mt19937 random(17);
  for (const auto& [name, expected] : tensors) {
    const TensorInfo& tensor = *checkpoint->find(name);
    for (int i = 0; i < 12; ++i) {
      Rectangle want{0, tensor.rows, 0, tensor.cols};
      if (i >= 2) {
        want.row_begin = static_cast<int64_t>(random() % (tensor.rows + 1));
        want.row_end = want.row_begin + random() % (tensor.rows - want.row_begin + 1);
        want.col_begin = static_cast<int64_t>(random() % (tensor.cols + 1));
        want.col_end = want.col_begin + random() % (tensor.cols - want.col_begin + 1);
      }
      expect_rectangle(*checkpoint, expected, tensor, want, i % 2 == 1);
    }
  }
}

TEST(CheckpointTest, NansAndInfinitiesAreReadLikeOtherWeights) {
  const TempFolder folder;
  const float infinity = std::numeric_limits<float>::infinity();
  write_safetensors(folder.path() / "model.safetensors",
                    {{"a", {"BF16", {3}, {std::nanf(""), infinity, -infinity}}}});
  const auto checkpoint = Checkpoint::open(folder.path());
  float out[3];
  ASSERT_TRUE(checkpoint->read(*checkpoint->find("a"), {0, 1, 0, 3}, false, out, 3).ok());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], infinity);
  EXPECT_EQ(out[2], -infinity);
}

TEST(CheckpointTest, OtherTypesCannotBeRead) {
  const TempFolder folder;
  write_safetensors(folder.path() / "model.safetensors", {{"ids", ramp({4}, "I64")}});
  const auto checkpoint = Checkpoint::open(folder.path());
  float out[4];
  EXPECT_THAT(message_of(checkpoint->read(*checkpoint->find("ids"), {0, 1, 0, 4}, false, out, 4)),
              HasSubstr("ids: must be F32, BF16 or F16, the checkpoint has I64"));
}

TEST(CheckpointTest, AFileTruncatedAfterOpeningIsAnErrorAndNoSignal) {
  const TempFolder folder;
  const fs::path path = folder.path() / "model.safetensors";
  write_safetensors(path, {{"a", ramp({100, 100})}});
  const auto checkpoint = Checkpoint::open(folder.path());
  fs::resize_file(path, 20'000);
  std::vector<float> out(10'000);
  const TensorInfo& a = *checkpoint->find("a");
  EXPECT_TRUE(checkpoint->read(a, {0, 40, 0, 100}, false, out.data(), 100).ok());
  for (const bool transposed : {false, true}) {
    const std::string message =
        message_of(checkpoint->read(a, {0, 100, 0, 100}, transposed, out.data(), 100));
    EXPECT_THAT(message, HasSubstr(path.string()));
    EXPECT_THAT(message, HasSubstr("was it truncated while it was read?"));
  }
}

TEST(CheckpointTest, PointersToTensorsStayValidWhenTheCheckpointIsMoved) {
  const TempFolder folder;
  write_safetensors(folder.path() / "model.safetensors", {{"a", ramp({2})}});
  auto opened = Checkpoint::open(folder.path());
  const TensorInfo* a = opened->find("a");
  const Checkpoint moved = std::move(*opened);
  EXPECT_EQ(moved.find("a"), a);
  float out[2];
  EXPECT_TRUE(moved.read(*a, {0, 1, 0, 2}, false, out, 2).ok());
}

}  // namespace
}  // namespace lockstep
