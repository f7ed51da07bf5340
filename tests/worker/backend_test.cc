// SPDX-License-Identifier: Apache-2.0
// The device that each worker gets, and the errors if a worker gets none.
#include "worker/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Gpus gpus(const std::vector<int>& majors) {
  Gpus found;
  if (majors.empty()) found.problem = "no NVIDIA driver is loaded";
  for (const int major : majors) {
    found.devices.push_back({.name = "A card", .memory_bytes = 1, .major = major, .minor = 0});
  }
  return found;
}

std::string error(const std::string& device, int workers, const Gpus& found) {
  const auto devices = devices_of_workers(device, workers, found);
  EXPECT_FALSE(devices.ok());
  EXPECT_EQ(message_of(devices.status()).find('\n'), std::string::npos);
  return message_of(devices.status());
}

TEST(DevicesOfWorkersTest, AutoUsesGpusIfThereAreEnough) {
  EXPECT_THAT(devices_of_workers("auto", 2, gpus({8, 9})).value(), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(devices_of_workers("auto", 2, gpus({8})).value(), ElementsAre("cpu", "cpu"));
  EXPECT_THAT(devices_of_workers("auto", 1, gpus({7})).value(), ElementsAre("cpu"));
  EXPECT_THAT(devices_of_workers("auto", 1, gpus({})).value(), ElementsAre("cpu"));
}

TEST(DevicesOfWorkersTest, OneGpuMayBeShared) {
  EXPECT_THAT(devices_of_workers("cuda:1", 2, gpus({8, 8})).value(),
              ElementsAre("cuda:1", "cuda:1"));
  EXPECT_THAT(devices_of_workers("cpu", 2, gpus({8, 8})).value(), ElementsAre("cpu", "cpu"));
}

TEST(DevicesOfWorkersTest, AnErrorSaysWhatIsMissing) {
  EXPECT_EQ(error("cuda", 1, gpus({})),
            "--device cuda: no NVIDIA driver is loaded; use --device cpu");
  EXPECT_EQ(error("cuda", 3, gpus({8})),
            "--device cuda: 3 workers need one GPU each, there is 1: use --workers 1, or --device "
            "cuda:0 to share one");
  EXPECT_EQ(error("cuda:2", 1, gpus({8, 8})),
            "--device cuda:2: GPUs are numbered from 0, and there are 2 here");
  EXPECT_THAT(error("cuda", 1, gpus({7})), HasSubstr("must be 8.0 or more, found 7.0"));
  for (const char* wrong : {"gpu", "cuda:", "cuda:x", "cuda:-1", ""}) {
    EXPECT_THAT(error(wrong, 1, gpus({8})), HasSubstr("must be auto, cpu, cuda or cuda:N"));
  }
}

TEST(OpenBackendTest, ACpuIsAlwaysAvailableAndAMissingGpuIsAnErrorOfOneLine) {
  EXPECT_TRUE(open_backend("cpu")->device->is_host());
  const auto missing = open_backend("cuda:4095");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(missing.status()), HasSubstr("--device cuda:4095: "));
}

}  // namespace
}  // namespace lockstep
