// SPDX-License-Identifier: Apache-2.0
#include "tests/support/devices/stream_device.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "tests/support/devices/shim_peers.h"

namespace lockstep {
namespace {

class StreamDevice final : public Device, public ShimPeers {
 public:
  explicit StreamDevice(const StreamOptions& options)
      : options_(options), random_(options.seed), thread_([this] { work(); }) {}
  ~StreamDevice() override {
    push({});
    thread_.join();
  }

  std::string name() const override { return "stream device"; }
  std::string address() const override { return options_.address; }
  int64_t total_bytes() const override { return 0; }
  int64_t free_bytes() const override { return 0; }

  std::byte* allocate(int64_t bytes) override {
    auto* memory = static_cast<std::byte*>(operator new (static_cast<size_t>(bytes),
                                                         std::align_val_t{kDeviceAlign}));
    std::memset(memory, 0, static_cast<size_t>(bytes));
    return memory;
  }
  void release(std::byte* memory, int64_t) override {
    LOCKSTEP_CHECK(done());
    operator delete (memory, std::align_val_t{kDeviceAlign});
  }
  std::byte* allocate_staging(int64_t bytes) override { return allocate(bytes); }
  void release_staging(std::byte* memory, int64_t bytes) override { release(memory, bytes); }

  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    copy_rows({.to = to, .from = from, .row_bytes = bytes, .rows = 1});
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    copy_rows({.to = to, .from = from, .row_bytes = bytes, .rows = 1});
  }
  void copy_rows(const RowCopy& copy) override {
    push([copy] { host_device()->copy_rows(copy); });
  }
  void clear(std::byte* memory, int64_t bytes) override {
    push([=] { std::memset(memory, 0, static_cast<size_t>(bytes)); });
  }

  void* queue() const override { return nullptr; }
  bool done() override {
    const std::lock_guard lock(mutex_);
    return done_ == queued_;
  }
  const char* synchronize() override { return wait(mark()); }
  int64_t mark() override {
    const std::lock_guard lock(mutex_);
    return queued_;
  }
  const char* wait(int64_t mark) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= mark; });
    return nullptr;
  }
  void use_from_this_thread() override {}

  PeerAccess* peer_access() override { return options_.has_peers ? this : nullptr; }

  PeerMemory* open(const PeerHandle& peer, std::string* problem) override {
    *problem = options_.refusal;
    return problem->empty() ? ShimPeers::open(peer, problem) : nullptr;
  }
  const char* all_reduce(const PeerGroup& group, const PeerSum& sum) override {
    if (options_.lies) push([sum] { *reinterpret_cast<float*>(sum.data) += 1; });
    return ShimPeers::all_reduce(group, sum);
  }

 private:
  void queue_exchange(Exchange exchange) override {
    push([this, run = std::move(exchange.run)] {
      delay();
      run();
    });
  }

  // Usually no delay, sometimes some hundred microseconds. Runs on the device's thread.
  void delay() {
    if (options_.seed == 0 || random_() % 8 != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
  }

  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++queued_;
    changed_.notify_all();
  }
  // Runs queued work until an empty function arrives, which ends the thread.
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const std::function<void()> next = std::move(queue_.front());
      queue_.pop_front();
      if (!next) return;
      lock.unlock();
      next();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  const StreamOptions options_;
  std::minstd_rand random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  int64_t queued_ = 0, done_ = 0;  // Counts of all work ever queued and done.
  std::thread thread_;             // The last member: it uses all others.
};

}  // namespace

std::unique_ptr<Device> stream_device(const StreamOptions& options) {
  return std::make_unique<StreamDevice>(options);
}

}  // namespace lockstep
