// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <new>

#include "base/threads/thread_pool.h"
#include "worker/kernels/find.h"

namespace lockstep {

// Runs a CPU kernel with scratch of exactly the size that it requests.
inline void run_on_host(const KernelEntry& kernel, KernelArgs args, int threads) {
  ThreadPool pool(threads);
  const auto bytes = static_cast<size_t>(scratch_bytes(kernel, args, threads));
  void* scratch = ::operator new(bytes, std::align_val_t(64));
  std::memset(scratch, 0xff, bytes);
  args.parallel = &pool;
  args.scratch = static_cast<std::byte*>(scratch);
  EXPECT_EQ(kernel.run(args), nullptr) << kernel.name;
  ::operator delete(scratch, std::align_val_t(64));
}

}  // namespace lockstep
