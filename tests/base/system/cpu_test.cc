// SPDX-License-Identifier: Apache-2.0
#include "base/system/cpu.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/environment.h"

namespace lockstep {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A folder that imitates /proc and /sys.
class FakeSystem {
 public:
  explicit FakeSystem(const std::string& name)
      : root_(std::filesystem::path(testing::TempDir()) / ("lockstep_cpu_test_" + name)) {
    std::filesystem::remove_all(root_);
  }
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

TEST(CpuQuotaTest, TheQuotaIsUnlimitedWithoutFilesOrWithMax) {
  const FakeSystem none("none");
  EXPECT_FALSE(cpu_quota(none.root()));
  const FakeSystem max("max");
  max.write("proc/self/cgroup", "0::/a\n");
  max.write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_FALSE(cpu_quota(max.root()));
}

TEST(CpuQuotaTest, TheQuotaIsTheMinimumOfTheGroupAndItsAncestors) {
  const FakeSystem system("ancestors");
  system.write("proc/self/cgroup", "0::/pod/container\n");
  system.write("sys/fs/cgroup/pod/container/cpu.max", "400000 100000\n");
  system.write("sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  system.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(system.root()).value(), 1.5);
}

TEST(CpuQuotaTest, APathOutsideTheCgroupMountIsReadAtItsRoot) {
  const FakeSystem system("host_path");
  system.write("proc/self/cgroup", "0::/../../kubepods/x\n");
  system.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(system.root()).value(), 2);
}

TEST(CpuQuotaTest, CgroupVersionOneIsRead) {
  const FakeSystem system("v1");
  system.write("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/x\n");
  system.write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "50000\n");
  system.write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
  system.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  system.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(system.root()).value(), 0.5);
}

TEST(MemoryTest, WithoutALimitMemoryIsThatOfTheMachine) {
  const FakeSystem system("machine");
  system.write("proc/meminfo", "MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:  1024 kB\n");
  EXPECT_EQ(memory_total_bytes(system.root()), 2 * kMiB);
  EXPECT_EQ(memory_free_bytes(system.root()), kMiB);
}

TEST(MemoryTest, PageCacheCountsAsFreeAndSharedMemoryDoesNot) {
  const FakeSystem system("v2_memory");
  system.write("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n");
  system.write("proc/self/cgroup", "0::/a/b\n");
  system.write("sys/fs/cgroup/a/memory.max", std::to_string(100 * kMiB) + "\n");
  system.write("sys/fs/cgroup/a/memory.current", std::to_string(70 * kMiB) + "\n");
  system.write("sys/fs/cgroup/a/memory.stat",
               "anon 1\nfile " + std::to_string(60 * kMiB) + "\nshmem " +
                   std::to_string(40 * kMiB) + "\ninactive_file " + std::to_string(15 * kMiB) +
                   "\nactive_file " + std::to_string(5 * kMiB) + "\n");
  system.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(memory_total_bytes(system.root()), 100 * kMiB);
  EXPECT_EQ(memory_free_bytes(system.root()), 50 * kMiB);
}

TEST(MemoryTest, CgroupVersionOneAndItsNumberForUnlimitedAreRead) {
  const FakeSystem system("v1_memory");
  system.write("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n");
  system.write("proc/self/cgroup", "7:memory:/a\n");
  system.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(64 * kMiB));
  system.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", std::to_string(65 * kMiB));
  system.write("sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 0\n");
  system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_total_bytes(system.root()), 64 * kMiB);
  EXPECT_EQ(memory_free_bytes(system.root()), 0);
}

TEST(CpuTest, ThisMachineHasACoreMemoryAndAName) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_GT(memory_total_bytes(), 0);
  EXPECT_LE(memory_free_bytes(), memory_total_bytes());
  EXPECT_FALSE(cpu_model_name().empty());
  EXPECT_EQ(cpu_model_name("/nonexistent"), "unknown");
}

TEST(IsaTest, AnIsaIsFoundByItsName) {
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    EXPECT_EQ(find_isa(isa_name(isa)), isa);
  }
  EXPECT_FALSE(find_isa("neon"));
}

TEST(IsaTest, TheEnvironmentChoosesALowerIsa) {
  const ScopedVariable variable("LOCKSTEP_ISA", "portable");
  EXPECT_FALSE(isa_problem());
  EXPECT_EQ(best_isa(), Isa::kPortable);
}

TEST(IsaTest, AnEmptyVariableLeavesTheBestIsa) {
  const ScopedVariable variable("LOCKSTEP_ISA", "");
  EXPECT_FALSE(isa_problem());
  EXPECT_EQ(best_isa(), machine_isa());
}

TEST(IsaTest, ALowerIsaThatTheMachineLacksIsReported) {
  if (machine_runs(Isa::kAvx2Vnni) || machine_isa() < Isa::kAvx2Vnni) {
    GTEST_SKIP() << "this machine lacks no instruction set below its best";
  }
  const ScopedVariable variable("LOCKSTEP_ISA", "avx2_vnni");
  EXPECT_TRUE(isa_problem());
  EXPECT_EQ(best_isa(), machine_isa());
}

TEST(IsaTest, TheMachinesBestIsaAndThePortableOneRun) {
  EXPECT_TRUE(machine_runs(Isa::kPortable));
  EXPECT_TRUE(machine_runs(machine_isa()));
  for (int i = static_cast<int>(machine_isa()) + 1; i < kIsaCount; ++i) {
    EXPECT_FALSE(machine_runs(static_cast<Isa>(i)));
  }
}

TEST(IsaTest, AnUnknownValueIsReportedAndIgnored) {
  const ScopedVariable variable("LOCKSTEP_ISA", "sse9");
  EXPECT_NE(isa_problem().value_or("").find("sse9"), std::string::npos);
  EXPECT_EQ(best_isa(), machine_isa());
}

TEST(IsaTest, AnIsaAboveTheMachinesBestIsReported) {
  if (machine_runs(Isa::kAmx)) GTEST_SKIP() << "this machine has the best instruction set";
  const ScopedVariable variable("LOCKSTEP_ISA", "amx");
  EXPECT_NE(isa_problem().value_or("").find("this processor does not support amx"),
            std::string::npos);
  EXPECT_EQ(best_isa(), machine_isa());
}

}  // namespace
}  // namespace lockstep
