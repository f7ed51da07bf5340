// SPDX-License-Identifier: Apache-2.0
// The places where a GPU's libraries are searched for.
#include "base/system/vendor_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/environment.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFolders[] = {"nvidia/new/lib", "nvidia/old/lib"};
constexpr VendorLibrary kLibrary = {.file = "liblockstep-none.so.7",
                                    .package_folders = kFolders,
                                    .variable = "LOCKSTEP_TEST_LIBRARY"};

std::string add_file(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << "not a library";
  return path;
}

TEST(VendorLibraryTest, PythonPackagesAreSearchedAndTheActiveEnvironmentIsFirst) {
  const TempFolder folder;
  const std::string packages = "/lib/python3.11/site-packages/", file = "/liblockstep-none.so.7";
  const std::string active = folder.path().string() + "/venv",
                    other = folder.path().string() + "/on path";
  const std::string old = add_file(active + packages + kFolders[1] + file);
  const std::string on_path = add_file(other + packages + kFolders[0] + file);
  const std::string python = add_file(other + "/bin/python3");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const ScopedVariable venv("VIRTUAL_ENV", active), conda("CONDA_PREFIX", "");
  const ScopedVariable path("PATH", folder.path().string() + "/no/bin:" + other + "/bin:/usr/bin");
  EXPECT_THAT(places_of(kLibrary), ::testing::ElementsAre(old, on_path));
}

TEST(VendorLibraryTest, AMissingLibraryIsAnErrorOfOneLineThatNamesTheFile) {
  const TempFolder folder;
  const ScopedVariable venv("VIRTUAL_ENV", folder.path().string());
  add_file(folder.path().string() +
           "/lib/python3.11/site-packages/nvidia/new/lib/liblockstep-none.so.7");
  const OpenedLibrary opened = open_library(kLibrary);
  EXPECT_EQ(opened.handle, nullptr);
  EXPECT_THAT(opened.problem, HasSubstr("liblockstep-none.so.7"));
  EXPECT_EQ(opened.problem.find('\n'), std::string::npos);
  EXPECT_FALSE(opened.switched_off);
}

TEST(VendorLibraryTest, TheEnvironmentNamesAnotherFileOrDisablesTheLibrary) {
  {
    const ScopedVariable named("LOCKSTEP_TEST_LIBRARY", "libc.so.6");
    const OpenedLibrary opened = open_library(kLibrary);
    EXPECT_EQ(opened.path, "libc.so.6");
    int (*find_process)() = nullptr;
    EXPECT_TRUE(opened.find("getpid", find_process));
    EXPECT_FALSE(opened.find("lockstep_has_no_such_function", find_process));
  }
  const ScopedVariable named("LOCKSTEP_TEST_LIBRARY", "off");
  const OpenedLibrary opened = open_library(kLibrary);
  EXPECT_EQ(opened.handle, nullptr);
  EXPECT_TRUE(opened.switched_off);
  EXPECT_EQ(opened.problem, "switched off by LOCKSTEP_TEST_LIBRARY");
}

}  // namespace
}  // namespace lockstep
