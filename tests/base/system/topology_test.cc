// SPDX-License-Identifier: Apache-2.0
#include "base/system/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// A machine with two NUMA nodes. Each has two cores with two threads. Processors are numbered as
// Linux usually does it: the first threads of all cores are 0-3, and the second threads are 4-7.
class TopologyTest : public testing::Test {
 protected:
  TopologyTest() {
    for (int id = 0; id < 8; ++id) {
      const std::string topology = "sys/devices/system/cpu/cpu" + std::to_string(id) + "/topology/";
      write(topology + "core_id", std::to_string(id % 2));
      write(topology + "physical_package_id", std::to_string(id % 4 / 2));
    }
    write("sys/devices/system/node/node0/cpulist", "0-1,4-5");
    write("sys/devices/system/node/node1/cpulist", "2-3,6-7");
  }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_.path() / path).parent_path());
    std::ofstream(root_.path() / path) << text << "\n";
  }
  std::vector<Processor> all() const {
    return locate_processors({0, 1, 2, 3, 4, 5, 6, 7}, root_.path().string());
  }

  const TempFolder root_;
};

TEST_F(TopologyTest, ProcessorsAreOrderedByNodeAndCore) {
  std::vector<int> ids, siblings;
  for (const Processor& processor : all()) {
    ids.push_back(processor.id);
    siblings.push_back(processor.sibling);
  }
  EXPECT_EQ(ids, (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(siblings, (std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(nodes_of(all()), (std::vector<int>{0, 1}));
}

TEST_F(TopologyTest, WithAmxThereIsOneThreadPerCoreByDefault) {
  EXPECT_EQ(default_threads(Isa::kAmx, 8, all()), 4);
  EXPECT_EQ(default_threads(Isa::kAvx512Bf16, 8, all()), 8);
  // Under a quota, or where the system hides which hardware threads share a core.
  EXPECT_EQ(default_threads(Isa::kAmx, 3, all()), 3);
  EXPECT_EQ(default_threads(Isa::kAmx, 2, locate_processors({3, 5}, "/nothing")), 2);
  const std::vector<Processor> one_core = locate_processors({1, 5}, root_.path().string());
  EXPECT_EQ(default_threads(Isa::kAmx, 2, one_core), 1);
  EXPECT_EQ(default_threads(Isa::kAmx, 1, {}), 1);
}

TEST_F(TopologyTest, AWorkerGetsItsOwnNodeAndWholeCoresFirst) {
  EXPECT_EQ(processors_of_worker(all(), 2, 2, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(processors_of_worker(all(), 2, 2, 1), (std::vector<int>{2, 3}));
  EXPECT_EQ(processors_of_worker(all(), 2, 3, 1), (std::vector<int>{2, 3, 6}));
  EXPECT_EQ(processors_of_worker(all(), 4, 1, 3), (std::vector<int>{3}));
}

TEST_F(TopologyTest, WorkersShareNoProcessorAndTooManyThreadsAreNotBound) {
  for (int workers = 1; workers <= 8; ++workers) {
    std::set<int> taken;
    for (int worker = 0; worker < workers; ++worker) {
      for (const int id : processors_of_worker(all(), workers, 8 / workers, worker)) {
        EXPECT_TRUE(taken.insert(id).second) << id << " of worker " << worker;
      }
    }
    EXPECT_EQ(taken.size(), static_cast<size_t>(8 / workers * workers));
    EXPECT_TRUE(processors_of_worker(all(), workers, 9 / workers + 8 % workers + 1, 0).empty());
  }
}

TEST_F(TopologyTest, AnUnknownTopologyIsOneNodeOfSingleThreadCores) {
  for (const Processor& processor :
       locate_processors({3, 5}, (root_.path() / "nothing").string())) {
    EXPECT_EQ(processor.node, 0);
    EXPECT_EQ(processor.core, processor.id);
    EXPECT_EQ(processor.sibling, 0);
  }
  EXPECT_EQ(cpu_caches((root_.path() / "nothing").string()).l3_bytes, 0);
  EXPECT_EQ(huge_pages((root_.path() / "nothing").string()), "");
}

TEST_F(TopologyTest, CachesAndHugePagesAreRead) {
  write("sys/devices/system/cpu/cpu0/cache/index2/level", "2");
  write("sys/devices/system/cpu/cpu0/cache/index2/size", "512K");
  write("sys/devices/system/cpu/cpu0/cache/index3/level", "3");
  write("sys/devices/system/cpu/cpu0/cache/index3/size", "8M");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  EXPECT_EQ(cpu_caches(root_.path().string()).l2_bytes, 512 << 10);
  EXPECT_EQ(cpu_caches(root_.path().string()).l3_bytes, 8 << 20);
  EXPECT_EQ(huge_pages(root_.path().string()), "madvise");
}

TEST(ProcessorListTest, AListIsReadAsItIsWritten) {
  EXPECT_EQ(parse_processors("0"), std::vector<int>{0});
  EXPECT_EQ(parse_processors("8,0-2"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(processors_text({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  EXPECT_EQ(processors_text({}), "");
  for (const char* bad : {"", "x", "1,", ",1", "3-1", "1-", "-1", "1 2", "0-4096", "99999999999"}) {
    EXPECT_FALSE(parse_processors(bad).has_value()) << bad;
  }
}

TEST(BindTest, AThreadStaysOnItsProcessor) {
  const std::vector<int> usable = thread_processors();
  ASSERT_FALSE(usable.empty());
  std::thread([&] {
    ASSERT_TRUE(bind_thread({usable.back()}));
    EXPECT_EQ(thread_processors(), std::vector<int>{usable.back()});
  }).join();
  EXPECT_EQ(thread_processors(), usable);
  EXPECT_FALSE(bind_thread({}));
}

}  // namespace
}  // namespace lockstep
