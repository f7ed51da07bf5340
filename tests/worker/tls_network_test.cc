// SPDX-License-Identifier: Apache-2.0
// Groups whose hosts use TLS have the same bits. On a bad network such a group ends, and never
// gives a wrong value.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/support/network/data_tls.h"
#include "tests/support/network/host_group.h"
#include "tests/support/network/relay.h"
#include "tests/support/patience.h"
#include "tests/worker/collectives/checks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::host_group;
using testing::Relay;

class TlsNetworkTest : public ::testing::Test {
 protected:
  Group make_group(const std::vector<int>& hosts, std::chrono::nanoseconds timeout = kPatience) {
    return host_group(hosts, {.timeout = timeout,
                              .shared_bytes = 1 << 20,
                              .way =
                                  [this](int, int, const std::string& address) {
                                    relay_ = std::make_unique<Relay>(address);
                                    return relay_->address();
                                  },
                              .channel =
                                  [this](FileDescriptor socket, bool dialled) {
                                    return testing::open_channel(
                                        *tls_, std::move(socket),
                                        dialled ? DataTls::Side::kDials : DataTls::Side::kListens);
                                  }});
  }

  // Makes ten calls. Returns DATA_LOSS if the checks find a wrong byte.
  static absl::Status ten_calls(Collective& g) {
    for (int round = 0; round < 5; ++round) {
      RETURN_IF_ERROR(gather_and_check(g, {3, even(g.ranks(), 1'900), 4, 1, false}));
      RETURN_IF_ERROR(reduce_and_check(g, 2, 3000, 0));
    }
    return absl::OkStatus();
  }

  // If a length was changed, a rank may wait until its deadline for bytes that never arrive.
  void expect_ended(int64_t at, std::atomic<int64_t> testing::RelayFaults::*fault) {
    SCOPED_TRACE(at);
    Group group = make_group({0, 1}, milliseconds(1'000));
    relay_->faults().*fault = at;
    for (const absl::Status& result : run(group, ten_calls)) {
      EXPECT_FALSE(result.ok());
      EXPECT_FALSE(absl::IsDataLoss(result)) << result;
    }
  }

  const testing::Authority authority_;
  const std::unique_ptr<DataTls> tls_ =
      testing::load_tls(testing::tls_files(authority_.sign("worker"), authority_), 50);
  std::unique_ptr<Relay> relay_;  // The relay of the last pair.
};

TEST_F(TlsNetworkTest, HostsThatUseTlsHaveTheSameBits) {
  for (const std::vector<int>& hosts :
       std::vector<std::vector<int>>{{0, 1}, {0, 0, 1}, {0, 1, 2}, {0, 1, 0, 2, 1}}) {
    SCOPED_TRACE(testing::text_of(hosts));
    Group group = host_group(
        hosts, {.shared_bytes = 1 << 20, .channel = [this](FileDescriptor socket, bool dialled) {
                  return testing::open_channel(
                      *tls_, std::move(socket),
                      dialled ? DataTls::Side::kDials : DataTls::Side::kListens);
                }});
    expect_ok(run(group, ten_calls));
    expect_ok(run(group, [](Collective& g) -> absl::Status {
      RETURN_IF_ERROR(gather_and_check(g, {3, even(g.ranks(), 200'001), 2, 1, false}));
      return reduce_and_check(g, 2, 40'000, 3);
    }));
  }
}

TEST_F(TlsNetworkTest, ARankMayLeaveRightAfterItsLastCall) {
  for (int round = 0; round < 20; ++round) {
    Group group = make_group({0, 1});
    expect_ok(run(group, [&](Collective& g) {
      const absl::Status status = gather_and_check(g, {3, even(g.ranks(), 90'000), 4, 0, false});
      group[g.rank()].reset();
      return status;
    }));
  }
}

TEST_F(TlsNetworkTest, AChangedBitAnywhereEndsTheGroup) {
  std::minstd_rand random(kSeed);
  for (int round = 0; round < 30; ++round) {
    const int64_t at = round < 10 ? round * 211 : static_cast<int64_t>(random() % 90'000);
    expect_ended(at, &testing::RelayFaults::flip_at);
  }
}

TEST_F(TlsNetworkTest, AMissingByteEndsTheGroup) {
  for (const int64_t at : {0, 500, 2'000, 8'000, 30'000}) {
    expect_ended(at, &testing::RelayFaults::drop_at);
  }
}

TEST_F(TlsNetworkTest, AResetEndsTheGroup) {
  for (const int64_t at : {0, 500, 2'000, 60'000}) {
    expect_ended(at, &testing::RelayFaults::reset_at);
  }
}

TEST_F(TlsNetworkTest, AStallEndsTheGroupAtItsDeadline) {
  for (const int64_t at : {500, 20'000}) expect_ended(at, &testing::RelayFaults::stall_at);
}

TEST_F(TlsNetworkTest, ASlowLinkGivesTheSameBits) {
  Group group = make_group({0, 1});
  relay_->faults().pause_us = 500;
  relay_->faults().chunk_bytes = 700;
  expect_ok(run(group, ten_calls));
}

}  // namespace
}  // namespace lockstep
