// SPDX-License-Identifier: Apache-2.0
// Forwards each call to another device. A test's device overrides the calls that it observes or
// makes fail. The wrapper never counts as the host's device, even if the other device does.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "worker/kernels/device.h"

namespace lockstep {

class WrappedDevice : public Device {
 public:
  explicit WrappedDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  std::string address() const override { return inner_->address(); }
  std::string kind() const override { return inner_->kind(); }
  int64_t total_bytes() const override { return inner_->total_bytes(); }
  int64_t free_bytes() const override { return inner_->free_bytes(); }

  std::byte* allocate(int64_t bytes) override { return inner_->allocate(bytes); }
  void release(std::byte* memory, int64_t bytes) override { inner_->release(memory, bytes); }
  std::byte* allocate_staging(int64_t bytes) override { return inner_->allocate_staging(bytes); }
  void release_staging(std::byte* memory, int64_t bytes) override {
    inner_->release_staging(memory, bytes);
  }

  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    inner_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    inner_->copy_out(to, from, bytes);
  }
  void copy_rows(const RowCopy& copy) override { inner_->copy_rows(copy); }
  void clear(std::byte* memory, int64_t bytes) override { inner_->clear(memory, bytes); }
  const char* begin_capture() override { return inner_->begin_capture(); }
  std::unique_ptr<CapturedQueue> end_capture(std::string* problem) override {
    return inner_->end_capture(problem);
  }

  PeerAccess* peer_access() override { return inner_->peer_access(); }

  void* queue() const override { return inner_->queue(); }
  bool done() override { return inner_->done(); }
  const char* synchronize() override { return inner_->synchronize(); }
  int64_t mark() override { return inner_->mark(); }
  const char* wait(int64_t mark) override { return inner_->wait(mark); }
  void use_from_this_thread() override { inner_->use_from_this_thread(); }

 private:
  const std::unique_ptr<Device> inner_;
};

}  // namespace lockstep
