// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/private_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/status.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class PrivateFolderTest : public ::testing::Test {
 protected:
  std::string parent() const { return parent_.path().string(); }
  // As a coordinator that was killed leaves it behind.
  std::string leave_behind(const std::string& name, mode_t mode = 0700) {
    const std::string path = parent() + "/" + name;
    mkdir(path.c_str(), 0700);
    std::ofstream(path + "/lock");
    std::ofstream(path + "/cluster");
    chmod(path.c_str(), mode);
    return path;
  }

  TempFolder parent_;
};

TEST_F(PrivateFolderTest, NobodyElseMayEnterAndItGoesWithItsOwner) {
  std::string path;
  {
    const auto folder = PrivateFolder::make_in(parent());
    ASSERT_EQ(message_of(folder.status()), "");
    path = (*folder)->path();
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    std::ofstream(path + "/cluster");
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(PrivateFolderTest, WhatAKilledOwnerLeftIsRemovedWhenTheNextIsMade) {
  const std::string stale = leave_behind("lockstep-abc123");
  const auto folder = PrivateFolder::make_in(parent());
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists((*folder)->path()));
}

TEST_F(PrivateFolderTest, FoldersOfOwnersThatLiveStay) {
  const auto first = PrivateFolder::make_in(parent());
  const auto second = PrivateFolder::make_in(parent());
  EXPECT_TRUE(fs::exists((*first)->path()));
  EXPECT_NE((*first)->path(), (*second)->path());
  EXPECT_EQ(remove_stale_folders(parent()), 0);
}

TEST_F(PrivateFolderTest, WhatIsNotOursStays) {
  const std::string open_to_all = leave_behind("lockstep-abc123", 0755);
  const std::string other_name = leave_behind("lockstep-1000");
  const std::string no_lock = leave_behind("lockstep-abc124");
  fs::remove(no_lock + "/lock");
  const std::string target = leave_behind("elsewhere");
  fs::create_symlink(target, parent() + "/lockstep-abc125");
  EXPECT_EQ(remove_stale_folders(parent()), 0);
  for (const std::string& path : {open_to_all, other_name, no_lock, target}) {
    EXPECT_TRUE(fs::exists(path + "/cluster")) << path;
  }
}

TEST_F(PrivateFolderTest, AFolderThatCannotBeMadeIsAnErrorThatNamesItsParent) {
  const auto folder = PrivateFolder::make_in(parent() + "/absent");
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(message_of(folder.status()).find("absent"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
