// SPDX-License-Identifier: Apache-2.0
#include "worker/host/page_prefaulter.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/system/clock.h"
#include "base/threads/thread_priority.h"

namespace lockstep {
namespace {

constexpr int64_t kMemoryPage = 4096;
constexpr int64_t kPiece = int64_t{2} << 20;  // Bytes over all layers that are touched at a time.
// If populating memory took less time than this, the memory was already mapped.
constexpr std::chrono::microseconds kAlreadyMapped{20};
constexpr int kRest = 20;  // A pause is this many times as long as the work before it.

// Bytes of a page in all layers.
int64_t page_bytes(const std::vector<StateView>& views) {
  int64_t bytes = 0;
  for (const StateView& view : views) bytes += view.page_bytes;
  return std::max<int64_t>(bytes, 1);
}

}  // namespace

PagePrefaulter::PagePrefaulter(std::vector<StateView> views, int64_t bytes)
    : views_(std::move(views)),
      ahead_(std::max<int64_t>(bytes / page_bytes(views_), 1)),
      wanted_(ahead_),
      thread_([this] { run(); }) {}

PagePrefaulter::~PagePrefaulter() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void PagePrefaulter::use(int64_t pages) {
  if (pages <= used_) return;
  used_ = pages;
  const MutexLock lock(&mutex_);
  wanted_ = used_ + ahead_;
  changed_.notify_all();
}

void PagePrefaulter::run() {
  lower_thread_priority();
  const int64_t piece = std::max<int64_t>(kPiece / page_bytes(views_), 1);
  for (int64_t done = 0;;) {
    int64_t wanted = 0;
    {
      const MutexLock lock(&mutex_);
      while (!stopping_ && wanted_ <= done) changed_.wait(&mutex_);
      if (stopping_) return;
      wanted = wanted_;
    }
    const int64_t end = std::min(done + piece, wanted);
    if (!populate(done, end)) return;
    done = end;
  }
}

bool PagePrefaulter::populate(int64_t first, int64_t end) {
  for (const StateView& view : views_) {
    const int64_t pages = std::min(end, view.pages) - first;
    if (pages <= 0) return false;
    std::byte* const begin = view.data + first * view.page_bytes;
    const int64_t bytes = pages * view.page_bytes;
    const auto before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % kMemoryPage);
    const int64_t since = thread_time_ns();
    // Needs Linux 5.14.
    if (madvise(begin - before, static_cast<size_t>(before + bytes), MADV_POPULATE_WRITE) != 0) {
      return false;
    }
    if (!rest_after(std::chrono::nanoseconds(thread_time_ns() - since))) return false;
  }
  return true;
}

bool PagePrefaulter::rest_after(std::chrono::nanoseconds work) {
  const MutexLock lock(&mutex_);
  if (wanted_ == ahead_ || work < kAlreadyMapped) return !stopping_;
  const auto end = std::chrono::steady_clock::now() + kRest * work;
  while (!stopping_ && changed_.wait_until(&mutex_, end)) {
  }
  return !stopping_;
}

}  // namespace lockstep
