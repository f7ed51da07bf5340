// SPDX-License-Identifier: Apache-2.0
// Each check of a safetensors header, with a file that would pass without the check.
#include "checkpoint/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::vector<TensorInfo>> read_bytes(const std::string& bytes) {
  const TempFolder folder;
  write_test_file(folder.path() / "m.safetensors", bytes);
  const auto file = File::open(folder.path() / "m.safetensors");
  if (!file.ok()) return file.status();
  return read_safetensors_header(*file);
}

absl::StatusOr<std::vector<TensorInfo>> read(const std::string& header, size_t data_bytes) {
  return read_bytes(safetensors_bytes(header, std::string(data_bytes, '\1')));
}

std::string problem(const std::string& header, size_t data_bytes) {
  return message_of(read(header, data_bytes).status());
}

// Parses a header without a file, for headers of many megabytes.
std::string problem_of_header(const std::string& header) {
  const auto file_bytes = static_cast<int64_t>(8 + header.size());
  return message_of(parse_safetensors_header(header, file_bytes, "m").status());
}

// One tensor "w" with the given members.
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST(SafetensorsTest, ATensorIsDescribed) {
  const std::string header = entry("\"BF16\"", "[2,3,4]", "[0,48]");
  const auto tensors = read(header, 48);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 1u);
  const TensorInfo& w = tensors->front();
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.dtype, DType::kBF16);
  EXPECT_EQ(w.dtype_name, "BF16");
  EXPECT_EQ(w.shape, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(w.rows, 6);
  EXPECT_EQ(w.cols, 4);
  EXPECT_EQ(w.begin, static_cast<int64_t>(8 + header.size()));
  EXPECT_EQ(w.end, w.begin + 48);
}

TEST(SafetensorsTest, AOneDimensionalTensorIsOneRowAndAScalarIsOneElement) {
  auto tensors = read(entry("\"F32\"", "[5]", "[0,20]"), 20);
  EXPECT_EQ(tensors->front().rows, 1);
  EXPECT_EQ(tensors->front().cols, 5);
  tensors = read(entry("\"F32\"", "[]", "[0,4]"), 4);
  EXPECT_EQ(tensors->front().rows, 1);
  EXPECT_EQ(tensors->front().cols, 1);
}

TEST(SafetensorsTest, TypesThatCannotBeWeightsAreListedByName) {
  for (const auto& [name, bytes] : std::map<std::string, int>{
           {"I64", 8}, {"U8", 1}, {"BOOL", 1}, {"F64", 8}, {"F8_E4M3", 1}, {"C64", 8}}) {
    const auto tensors =
        read(entry("\"" + name + "\"", "[1]", "[0," + std::to_string(bytes) + "]"), bytes);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_EQ(tensors->front().dtype, DType::kNone);
    EXPECT_EQ(tensors->front().dtype_name, name);
  }
}

TEST(SafetensorsTest, MetadataPaddingAndUnknownKeysAreAccepted) {
  EXPECT_TRUE(read(R"({"__metadata__":{"format":"pt","x":"y"}}       )", 0).ok());
  EXPECT_TRUE(read(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"note":{}}})", 4).ok());
}

TEST(SafetensorsTest, AFileBelowEightBytesIsRefused) {
  for (size_t size = 0; size < 8; ++size) {
    EXPECT_THAT(message_of(read_bytes(std::string(size, '\0')).status()),
                HasSubstr(fmt::format(
                    "must be a safetensors file, found only {} bytes; fetch it again", size)));
  }
}

TEST(SafetensorsTest, AGitLfsPointerIsNamedAsSuch) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 2200119864\n";
  EXPECT_THAT(message_of(read_bytes(pointer).status()), HasSubstr("`git lfs pull`"));
}

TEST(SafetensorsTest, AHeaderLongerThanTheFileIsRefused) {
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string bytes(10, '{');
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_THAT(message_of(read_bytes(bytes).status()),
                HasSubstr("found a length of " + std::to_string(length)));
  }
}

TEST(SafetensorsTest, AHeaderAboveTheLimitIsRefusedEvenIfTheFileIsLarger) {
  const TempFolder folder;
  const uint64_t length = 100'000'001;
  write_test_file(folder.path() / "m", std::string(reinterpret_cast<const char*>(&length), 8));
  std::filesystem::resize_file(folder.path() / "m", 200'000'000);  // Sparse.
  const auto file = File::open(folder.path() / "m");
  EXPECT_THAT(message_of(read_safetensors_header(*file).status()),
              HasSubstr("at most 100000000 bytes"));
}

TEST(SafetensorsTest, AHeaderStartsWithABrace) {
  EXPECT_THAT(problem(" {}", 0), HasSubstr("starts with '{'"));
  EXPECT_THAT(problem("\xef\xbb\xbf{}", 0), HasSubstr("starts with '{'"));
  EXPECT_THAT(problem("[]", 0), HasSubstr("starts with '{'"));
  EXPECT_THAT(problem("", 0), HasSubstr("found an empty one"));
}

TEST(SafetensorsTest, AHeaderIsUtf8Json) {
  EXPECT_THAT(problem("{", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(problem("{}x", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(problem("{\"\xff\":{}}", 0), HasSubstr("not valid JSON"));
}

TEST(SafetensorsTest, AHeaderIsAtMostFourLevelsDeep) {
  EXPECT_THAT(problem(R"({"w":{"shape":[[[1]]]}})", 0), HasSubstr("more than 4 nested"));
}

TEST(SafetensorsTest, DuplicateKeysAreRefused) {
  const std::string w = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(problem("{" + w + "," + w + "}", 4), HasSubstr("the key \"w\" appears twice"));
  EXPECT_THAT(problem(R"({"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("the key \"shape\" appears twice"));
}

TEST(SafetensorsTest, TheNumberOfTensorsIsLimited) {
  std::string header = "{\"0\":0";
  for (int i = 1; i <= kMaxTensors; ++i) header += ",\"" + std::to_string(i) + "\":0";
  EXPECT_THAT(problem_of_header(header + "}"), HasSubstr("at most 250000 tensors, found 250001"));
}

TEST(SafetensorsTest, AnAbsurdNumberOfValuesIsRefused) {
  std::string header = R"({"w":{"shape":[0)";
  for (int i = 0; i < 20 * kMaxTensors; ++i) header += ",0";
  EXPECT_THAT(problem_of_header(header + "]}}"), HasSubstr("more than 5000000 values"));
}

TEST(SafetensorsTest, MetadataIsAMapOfStrings) {
  EXPECT_THAT(problem(R"({"__metadata__":[]})", 0), HasSubstr("__metadata__: must be an object"));
  EXPECT_THAT(problem(R"({"__metadata__":{"a":1}})", 0),
              HasSubstr("must be a string, found an in"));
}

TEST(SafetensorsTest, AnEntryIsAnObjectWithThreeMembers) {
  EXPECT_THAT(problem(R"({"w":3})", 0), HasSubstr("tensor \"w\": must be an object"));
  EXPECT_THAT(problem(R"({"w":{"shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("dtype: must be a string, found nothing"));
  EXPECT_THAT(problem(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4),
              HasSubstr("shape: must be an array, found nothing"));
  EXPECT_THAT(problem(R"({"w":{"dtype":"F32","shape":[1]}})", 4),
              HasSubstr("data_offsets: must be an array, found nothing"));
}

TEST(SafetensorsTest, UnknownTypesAreRefused) {
  EXPECT_THAT(problem(entry("\"F31\"", "[1]", "[0,4]"), 4), HasSubstr("\"F31\" is not a type"));
  EXPECT_THAT(problem(entry("\"f32\"", "[1]", "[0,4]"), 4), HasSubstr("is not a type"));
  EXPECT_THAT(problem(entry("1", "[1]", "[0,4]"), 4), HasSubstr("dtype: must be a string"));
}

TEST(SafetensorsTest, DimensionsAndOffsetsAreNonNegativeIntegers) {
  for (const char* bad : {"[-1]", "[-0]", "[1.0]", "[1e3]", "[true]", "[null]", "[\"1\"]", "[[1]]",
                          "[9223372036854775808]", "[18446744073709551616]"}) {
    EXPECT_THAT(problem(entry("\"F32\"", bad, "[0,4]"), 4),
                HasSubstr("shape: must be non-negative integers"))
        << bad;
  }
  EXPECT_THAT(problem(entry("\"F32\"", "{}", "[0,4]"), 4), HasSubstr("shape: must be an array"));
  for (const char* bad : {"[0,-4]", "[0,4.0]", "[0,18446744073709551615]"}) {
    EXPECT_THAT(problem(entry("\"F32\"", "[1]", bad), 4),
                HasSubstr("data_offsets: must be non-negative integers"))
        << bad;
  }
}

TEST(SafetensorsTest, RankIsAtMostEight) {
  EXPECT_TRUE(read(entry("\"F32\"", "[1,1,1,1,1,1,1,1]", "[0,4]"), 4).ok());
  EXPECT_THAT(problem(entry("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4),
              HasSubstr("at most 8 dimensions, found 9"));
}

TEST(SafetensorsTest, ShapesThatOverflowAreRefused) {
  // 2^62 * 4 wraps to 4 elements in 64 bits; a later zero does not make the product valid.
  for (const char* bad :
       {"[4611686018427387905,4]", "[4294967296,4294967296]", "[9223372036854775807]",
        "[4294967296,4294967296,0]", "[3037000500,3037000500,1]"}) {
    EXPECT_THAT(problem(entry("\"F32\"", bad, "[0,4]"), 4), HasSubstr("overflows 64 bits")) << bad;
  }
}

TEST(SafetensorsTest, OffsetsAreTwoNumbersInOrder) {
  EXPECT_THAT(problem(entry("\"F32\"", "[1]", "[0]"), 4), HasSubstr("must be 2 numbers, found 1"));
  EXPECT_THAT(problem(entry("\"F32\"", "[1]", "[0,4,8]"), 4),
              HasSubstr("must be 2 numbers, found 3"));
  EXPECT_THAT(problem(entry("\"F32\"", "[1]", "[4,0]"), 4),
              HasSubstr("the end 0 is before the begin 4"));
}

TEST(SafetensorsTest, ARangeHasTheBytesOfItsShape) {
  EXPECT_THAT(problem(entry("\"F32\"", "[2]", "[0,4]"), 4),
              HasSubstr("F32 [2] takes 8 bytes, but data_offsets give it 4"));
  EXPECT_THAT(problem(entry("\"F4\"", "[3]", "[0,2]"), 2),
              HasSubstr("is not a whole number of bytes"));
}

std::string two(const std::string& a, const std::string& b) {
  return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
}

TEST(SafetensorsTest, RangesCoverTheFileExactly) {
  EXPECT_TRUE(read(two("[0,4]", "[4,8]"), 8).ok());
  EXPECT_TRUE(read(two("[4,8]", "[0,4]"), 8).ok());
  EXPECT_THAT(problem(two("[0,4]", "[5,9]"), 9), HasSubstr("a hole"));
  EXPECT_THAT(problem(two("[1,5]", "[5,9]"), 9), HasSubstr("a hole"));
  EXPECT_THAT(problem(two("[0,4]", "[3,7]"), 7), HasSubstr("overlapping"));
  EXPECT_THAT(problem(two("[0,4]", "[0,4]"), 4), HasSubstr("overlapping"));
  EXPECT_THAT(problem(two("[0,4]", "[4,8]"), 7), HasSubstr("cut short"));
  EXPECT_THAT(problem(two("[0,4]", "[4,8]"), 9), HasSubstr("too long"));
  EXPECT_THAT(problem("{}", 1), HasSubstr("too long"));
  EXPECT_THAT(problem(entry("\"U8\"", "[9223372036854775807]", "[0,9223372036854775807]"), 4),
              HasSubstr("overflows"));
}

TEST(SafetensorsTest, OffsetsOfATensorWithoutElementsMustLieBetweenTensors) {
  const auto with_empty = [](const std::string& at) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
           R"("e":{"dtype":"U8","shape":[0,7],"data_offsets":)" +
           at + "}}";
  };
  EXPECT_TRUE(read(with_empty("[0,0]"), 4).ok());
  EXPECT_TRUE(read(with_empty("[4,4]"), 4).ok());
  EXPECT_THAT(problem(with_empty("[2,2]"), 4), HasSubstr("overlapping"));
  EXPECT_THAT(problem(with_empty("[5,5]"), 4), HasSubstr("a hole"));
  EXPECT_THAT(problem(with_empty("[0,1]"), 4), HasSubstr("takes 0 bytes"));
}

TEST(SafetensorsTest, HostileNamesStayOnOneLine) {
  EXPECT_EQ(problem(R"({"a\nb\u0007":3})", 0).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace lockstep
