// SPDX-License-Identifier: Apache-2.0
// Counts the bytes of requests or answers that a port holds in memory while it receives or sends
// them: in total, and for each client. A client is an API key or a network.
#pragma once

#include <cstdint>
#include <string>

#include "base/text_map.h"
#include "base/threads/mutex.h"

namespace lockstep {

// Thread-safe. Outlives its shares.
class BufferedBytes {
 public:
  struct Sums {
    int64_t of_client = 0;  // 0 without a client.
    int64_t of_all = 0;
    int64_t clients = 0;  // The number of clients that hold bytes.

    // Whether these sums are within `max`. One client may have half of `max`. When more than three
    // quarters of `max` are used, each client may have only an equal share, and one more share
    // stays free for a new client. A client may always have a 256th of it, even if others use all.
    bool fit(int64_t max) const {
      if (of_client > 0 && of_client <= max / 256) return true;
      return of_all <= max && of_client <= max / 2 &&
             (of_all <= max - max / 4 || of_client <= max / (clients + 1));
    }
  };

  // The bytes that one connection or call holds. One thread at a time.
  class Share {
   public:
    explicit Share(BufferedBytes* all) : all_(*all) {}
    ~Share() {
      if (bytes_ != 0) hold(0);
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Sets the number of held bytes. Returns the new sums.
    Sums hold(int64_t bytes);
    // From now on, this client holds the bytes; "": no client.
    void belong_to(const std::string& client);

   private:
    BufferedBytes& all_;
    std::string client_;
    int64_t bytes_ = 0;
  };

 private:
  Sums add(const std::string& client, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  TextMap<std::string, int64_t> by_client_ ABSL_GUARDED_BY(mutex_);
  int64_t all_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep
