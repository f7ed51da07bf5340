// SPDX-License-Identifier: Apache-2.0
// Weights loaded to a device: the order in which buffers are filled, copied and reused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/status.h"
#include "base/threads/thread_pool.h"
#include "tests/support/devices/late_device.h"
#include "tests/support/devices/wrapped_device.h"
#include "tests/support/files/safetensors_writer.h"
#include "worker/kernels/pack_rows.h"
#include "worker/weights/weights.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRows = 160, kCols = 20000;  // 5 blocks of 32 rows.
constexpr int64_t kBlockBytes = 32 * kCols * 2;

// Records in order what happened to staging memory. A buffer's name is the number of its
// allocation.
class Log {
 public:
  void clear() {
    buffers_.clear();
    events_.clear();
    outstanding_.clear();
    passed_ = 0;
    filled_too_early_ = 0;
  }
  void allocated(const std::byte* buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.push_back(buffer);
  }
  // Called before the first byte of a block is written into the buffer.
  void fill(const void* buffer) {
    const std::lock_guard lock(mutex_);
    const int number = number_of(buffer);
    events_.push_back("fill " + std::to_string(number));
    filled_too_early_ += outstanding_.count(number) > 0 && outstanding_[number] > passed_;
  }
  void copied(const void* buffer, int64_t mark_after) {
    const std::lock_guard lock(mutex_);
    events_.push_back("copy " + std::to_string(number_of(buffer)));
    outstanding_[number_of(buffer)] = mark_after;
  }
  void waited(int64_t mark) {
    const std::lock_guard lock(mutex_);
    events_.push_back("wait");
    passed_ = std::max(passed_, mark);
  }
  const std::vector<std::string>& events() const { return events_; }
  size_t buffers() const { return buffers_.size(); }
  int filled_too_early() const { return filled_too_early_; }

 private:
  int number_of(const void* buffer) const {
    const auto at = std::find(buffers_.begin(), buffers_.end(), buffer);
    return static_cast<int>(at - buffers_.begin());
  }

  std::mutex mutex_;
  std::vector<const void*> buffers_;
  std::vector<std::string> events_;
  std::map<int, int64_t> outstanding_;  // By buffer: the mark after its last copy.
  int64_t passed_ = 0;
  int filled_too_early_ = 0;
};
Log staging_log;  // Global, since packers are plain functions.

// Delays all work as long as possible, and records it.
class LoggedDevice final : public WrappedDevice {
 public:
  LoggedDevice() : WrappedDevice(std::move(late_backend().device)) { staging_log.clear(); }
  std::byte* allocate_staging(int64_t bytes) override {
    if (buffers_left-- == 0) return nullptr;
    largest = std::max(largest, bytes);
    std::byte* buffer = WrappedDevice::allocate_staging(bytes);
    staging_log.allocated(buffer);
    return buffer;
  }
  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    WrappedDevice::copy_in(to, from, bytes);
    staging_log.copied(from, WrappedDevice::mark());
  }
  const char* wait(int64_t mark) override {
    const char* failure = WrappedDevice::wait(mark);
    staging_log.waited(mark);
    return fault != nullptr ? fault : failure;
  }
  const char* synchronize() override {
    const char* failure = WrappedDevice::synchronize();
    return fault != nullptr ? fault : failure;
  }

  int buffers_left = 1000;
  int64_t largest = 0;
  const char* fault = nullptr;
};

void logged_pack(const PackArgs& args) {
  staging_log.fill(args.packed);
  pack_plain_rows<DType::kBF16>(args);
}
constexpr KernelEntry kKernel{.op = Op::kLinear,
                              .weight = DType::kBF16,
                              .pack = logged_pack,
                              .packed_bytes = plain_row_bytes<DType::kBF16>};

// One weight, and the code that loads it.
struct Case {
  program::Program program;
  Bindings bindings;

  Case() {
    program::Weight& weight = *program.add_weights();
    weight.set_name("w");
    weight.set_role(program::LINEAR_WEIGHT);
    weight.set_dtype(program::BF16);
    weight.set_rows(kRows);
    weight.set_cols(kCols);
    program::Piece& piece = *weight.add_pieces();
    piece.set_source("w");
    piece.add_source_shape(kRows);
    piece.add_source_shape(kCols);
    piece.set_row_end(kRows);
    piece.set_col_end(kCols);
    bindings.used = {true};
    bindings.packers = {&kKernel};
  }

  absl::StatusOr<Weights> load(const WeightSource& source, Device& device, int threads,
                               const std::atomic<bool>* cancelled = nullptr) const {
    ThreadPool pool(threads);
    return Weights::load(program, bindings, plan_weights(program, bindings), source, device, pool,
                         {.cancelled = cancelled});
  }
};

std::vector<std::byte> bytes_of(Device& device, const Weights& weights) {
  std::vector<std::byte> found(kRows * kCols * 2);
  device.copy_out(found.data(), static_cast<const std::byte*>(weights.view(0).data),
                  static_cast<int64_t>(found.size()));
  EXPECT_EQ(device.synchronize(), nullptr);
  return found;
}

TEST(DeviceWeightsTest, AThreadFillsOneBufferWhileTheOtherIsCopied) {
  LoggedDevice device;
  const auto weights = Case().load(WeightSource(RandomWeights(3)), device, 1);
  ASSERT_EQ(message_of(weights.status()), "");
  EXPECT_THAT(staging_log.events(), ElementsAre("fill 0", "copy 0", "fill 1", "copy 1",  //
                                                "wait", "fill 0", "copy 0",              //
                                                "wait", "fill 1", "copy 1",              //
                                                "wait", "fill 0", "copy 0"));
  EXPECT_EQ(staging_log.buffers(), 2u);
  EXPECT_EQ(device.largest, kBlockBytes);
}

TEST(DeviceWeightsTest, NoBufferIsFilledDuringItsCopyAndTheBytesAreTheCpus) {
  const std::unique_ptr<Device> host = host_device();
  const WeightSource source{RandomWeights(3)};
  const auto wanted = Case().load(source, *host, 1);
  ASSERT_EQ(message_of(wanted.status()), "");
  for (const int threads : {1, 2, 4}) {
    LoggedDevice device;
    const auto weights = Case().load(source, device, threads);
    ASSERT_EQ(message_of(weights.status()), "");
    EXPECT_EQ(staging_log.filled_too_early(), 0);
    EXPECT_EQ(staging_log.buffers(), 2u * static_cast<size_t>(threads));
    EXPECT_EQ(bytes_of(device, *weights), bytes_of(*host, *wanted)) << threads << " threads";
  }
}

TEST(DeviceWeightsTest, ATruncatedFileIsAnErrorOfOneLineAndNothingStaysQueued) {
  const TempFolder folder;
  const TestTensor tensor{.shape = {kRows, kCols}, .values = std::vector<float>(kRows * kCols, 1)};
  const std::filesystem::path file = folder.path() / "model.safetensors";
  write_safetensors(file, {{"w", tensor}});
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  LoggedDevice device;  // It checks that nothing is queued when memory is released.
  const auto weights = Case().load(WeightSource(*std::move(checkpoint)), device, 2);
  EXPECT_FALSE(weights.ok());
  EXPECT_THAT(message_of(weights.status()), HasSubstr("model.safetensors"));
  EXPECT_EQ(message_of(weights.status()).find('\n'), std::string::npos);
}

TEST(DeviceWeightsTest, TheErrorReportsTooLittleStagingMemory) {
  LoggedDevice device;
  device.buffers_left = 3;
  const auto weights = Case().load(WeightSource(RandomWeights(3)), device, 2);
  EXPECT_EQ(weights.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(message_of(weights.status()),
            "the system refused 1.2 MiB for copies of weights; raise the limits on memory and on "
            "locked memory");
}

TEST(DeviceWeightsTest, ADeviceFaultEndsLoading) {
  LoggedDevice device;
  device.fault = "a fault";
  const auto weights = Case().load(WeightSource(RandomWeights(3)), device, 1);
  EXPECT_EQ(message_of(weights.status()), "late device: a fault");
  EXPECT_THAT(staging_log.events(), ElementsAre("fill 0", "copy 0", "fill 1", "copy 1", "wait"));
}

TEST(DeviceWeightsTest, ACancelledLoadLeavesNothingQueued) {
  LoggedDevice device;
  const std::atomic<bool> cancelled{true};
  EXPECT_EQ(Case().load(WeightSource(RandomWeights(3)), device, 2, &cancelled).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace lockstep
