// SPDX-License-Identifier: Apache-2.0
// Files read with pread and with mmap.
#include "base/system/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <type_traits>

#include "base/system/file.h"
#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

static_assert(!std::is_copy_constructible_v<MappedFile> && !std::is_copy_constructible_v<File>);

TEST(FileTest, ReadsAnyRange) {
  const TempFolder folder;
  write_test_file(folder.path() / "f", "0123456789");
  const auto file = File::open(folder.path() / "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes(), 10);
  std::string out(4, ' ');
  ASSERT_TRUE(file->read_at(3, 4, out.data()).ok());
  EXPECT_EQ(out, "3456");
  EXPECT_TRUE(file->read_at(10, 0, nullptr).ok());
}

TEST(FileTest, ReadingPastTheEndNamesTheFileAndTheOffset) {
  const TempFolder folder;
  write_test_file(folder.path() / "f", "0123456789");
  const auto file = File::open(folder.path() / "f");
  char out[8];
  const std::string message = message_of(file->read_at(6, 8, out));
  EXPECT_THAT(message, HasSubstr((folder.path() / "f").string()));
  EXPECT_THAT(message, HasSubstr("must have 4 more bytes at byte 10"));
}

TEST(FileTest, CheckSizeDetectsAFileThatShrank) {
  const TempFolder folder;
  write_test_file(folder.path() / "f", "0123456789");
  const auto file = File::open(folder.path() / "f");
  EXPECT_TRUE(file->check_size().ok());
  std::filesystem::resize_file(folder.path() / "f", 3);
  EXPECT_THAT(message_of(file->check_size()), HasSubstr("had 10 bytes, now has 3"));
}

TEST(FileTest, OnlyRegularFilesOpen) {
  const TempFolder folder;
  EXPECT_THAT(message_of(File::open(folder.path() / "none").status()), HasSubstr("No such file"));
  EXPECT_THAT(message_of(File::open(folder.path()).status()), HasSubstr("found a folder"));
  ASSERT_EQ(mkfifo((folder.path() / "fifo").c_str(), 0600), 0);  // Opening it must not block.
  EXPECT_THAT(message_of(File::open(folder.path() / "fifo").status()), HasSubstr("pipe"));
}

TEST(FileTest, ReadFileHasASizeLimit) {
  const TempFolder folder;
  write_test_file(folder.path() / "f", "0123456789");
  EXPECT_EQ(*read_file(folder.path() / "f", 10), "0123456789");
  EXPECT_THAT(message_of(read_file(folder.path() / "f", 9).status()),
              HasSubstr("must have at most 9 bytes, found 10"));
}

TEST(MappedFileTest, AMappingShowsTheBytesAndSurvivesMoves) {
  const TempFolder folder;
  write_test_file(folder.path() / "f", "hello");
  auto opened = MappedFile::open(folder.path() / "f");
  ASSERT_TRUE(opened.ok()) << opened.status();
  MappedFile file = std::move(*opened);
  EXPECT_EQ(file.text(), "hello");
  EXPECT_EQ(file.bytes().size(), 5u);
  write_test_file(folder.path() / "g", "world!");
  auto other = MappedFile::open(folder.path() / "g");
  file = std::move(*other);
  EXPECT_EQ(file.text(), "world!");
  EXPECT_EQ(file.path(), folder.path() / "g");
}

TEST(MappedFileTest, AnEmptyFileMapsToNoBytes) {
  const TempFolder folder;
  write_test_file(folder.path() / "f", "");
  const auto file = MappedFile::open(folder.path() / "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, AMissingFileIsNamed) {
  EXPECT_THAT(message_of(MappedFile::open("/nowhere/x.json").status()),
              HasSubstr("/nowhere/x.json"));
}

}  // namespace
}  // namespace lockstep
