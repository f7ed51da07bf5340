// SPDX-License-Identifier: Apache-2.0
// A device that counts captures and replays, and refuses them if a test says so.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/devices/wrapped_device.h"

namespace lockstep {

// The counts and settings that the test's devices share.
struct Captures {
  std::atomic<int> begun{0};
  std::atomic<int> replayed{0};
  bool refuse_begin = false;
  bool refuse_end = false;
  bool refuse_replay = false;
};

class CountedQueue final : public CapturedQueue {
 public:
  CountedQueue(std::unique_ptr<CapturedQueue> inner, Captures& captures)
      : inner_(std::move(inner)), captures_(captures) {}
  const char* replay() override {
    if (captures_.refuse_replay) return "no replay";
    ++captures_.replayed;
    return inner_->replay();
  }

 private:
  const std::unique_ptr<CapturedQueue> inner_;
  Captures& captures_;
};

class CountingDevice final : public WrappedDevice {
 public:
  CountingDevice(std::unique_ptr<Device> inner, Captures& captures)
      : WrappedDevice(std::move(inner)), captures_(captures) {}
  const char* begin_capture() override {
    ++captures_.begun;
    return captures_.refuse_begin ? "no capture" : WrappedDevice::begin_capture();
  }
  std::unique_ptr<CapturedQueue> end_capture(std::string* problem) override {
    auto queue = WrappedDevice::end_capture(problem);
    *problem = "no graph";
    if (captures_.refuse_end) return nullptr;
    return std::make_unique<CountedQueue>(std::move(queue), captures_);
  }

 private:
  Captures& captures_;
};

}  // namespace lockstep
