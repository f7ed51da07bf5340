// SPDX-License-Identifier: Apache-2.0
#include "worker/host/page_prefaulter.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "tests/support/patience.h"
#include "worker/kernels/device.h"

namespace lockstep {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kPageBytes = kMiB / 4, kPages = 128, kLayers = 2;
constexpr int64_t kLayerBytes = kPages * kPageBytes, kAllBytes = kLayers * kLayerBytes + 2 * kMiB;

// Layers have 32 MiB and contain whole huge pages, which are 2 MiB.
class PagePrefaulterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int layer = 0; layer < kLayers; ++layer) {
      views_.push_back({.data = memory_.data() + layer * kLayerBytes,
                        .page_bytes = kPageBytes,
                        .pages = kPages});
    }
    // Tries the call on memory after the layers: systems before Linux 5.14 do not support it.
    if (madvise(memory_.data() + kLayers * kLayerBytes, 4096, MADV_POPULATE_WRITE) != 0) {
      GTEST_SKIP() << "this system does not know MADV_POPULATE_WRITE";
    }
  }
  // The bytes of a layer that are backed by memory.
  int64_t resident(int layer) const {
    std::vector<unsigned char> pages(static_cast<size_t>(kLayerBytes / 4096));
    EXPECT_EQ(mincore(views_[layer].data, kLayerBytes, pages.data()), 0);
    return 4096 * std::ranges::count_if(pages, [](unsigned char page) { return page & 1; });
  }
  bool becomes_resident(int64_t bytes) const {
    return becomes_true([&] { return resident(0) == bytes && resident(1) == bytes; });
  }

  std::unique_ptr<Device> device_ = host_device();
  DeviceMemory memory_ = DeviceMemory(*device_, kAllBytes);
  std::vector<StateView> views_;
};

TEST_F(PagePrefaulterTest, PagesHaveMemoryBeforeTheyAreUsed) {
  PagePrefaulter ahead(views_, kLayers * 4 * kMiB);
  EXPECT_TRUE(becomes_resident(4 * kMiB));
  ahead.use(16);
  EXPECT_TRUE(becomes_resident(8 * kMiB));
  ahead.use(8);  // Ignored: the number of pages in use never decreases.
  ahead.use(40);
  EXPECT_TRUE(becomes_resident(14 * kMiB));
}

TEST_F(PagePrefaulterTest, WrittenPagesStayAndPopulationStopsAtTheLastPage) {
  for (int64_t page = 0; page < kPages; page += 3) {
    views_[1].data[page * kPageBytes + 7] = std::byte{5};
  }
  PagePrefaulter ahead(views_, kMiB);
  ahead.use(kPages);
  EXPECT_TRUE(becomes_resident(kLayerBytes));
  for (int64_t page = 0; page < kPages; ++page) {
    const int found = std::to_integer<int>(views_[1].data[page * kPageBytes + 7]);
    EXPECT_EQ(found, page % 3 == 0 ? 5 : 0) << page;
  }
}

TEST_F(PagePrefaulterTest, ThePrefaulterCanBeDestroyedInTheMiddleOfItsWork) {
  { const PagePrefaulter ahead(views_, 64 * kMiB); }
  const int64_t left = resident(0) + resident(1);
  EXPECT_EQ(resident(0) + resident(1), left) << "a thread still works";
}

}  // namespace
}  // namespace lockstep
