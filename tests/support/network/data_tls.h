// SPDX-License-Identifier: Apache-2.0
// The cluster's certificates as tests of data connections use them.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "base/status.h"
#include "base/tls/data_tls.h"
#include "tests/support/network/certificates.h"

namespace lockstep::testing {

inline std::unique_ptr<DataTls> load_tls(const TlsFiles& files,
                                         int64_t records_per_key = DataTls::kRecordsPerKey) {
  absl::StatusOr<std::unique_ptr<DataTls>> tls = DataTls::load(files, records_per_key);
  EXPECT_TRUE(tls.ok()) << tls.status();
  return tls.ok() ? *std::move(tls) : nullptr;
}

inline std::unique_ptr<DataChannel> open_channel(DataTls& tls, FileDescriptor socket,
                                                 DataTls::Side side) {
  absl::StatusOr<std::unique_ptr<DataChannel>> channel = tls.open(std::move(socket), side);
  EXPECT_TRUE(channel.ok()) << channel.status();
  return channel.ok() ? *std::move(channel) : nullptr;
}

}  // namespace lockstep::testing
