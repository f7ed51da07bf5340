// SPDX-License-Identifier: Apache-2.0
// How ranks of different hosts connect, for either dialling side, with strangers and with faults.
#include "worker/data/data_meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/support/network/data_tls.h"
#include "tests/support/patience.h"
#include "worker/collectives/hosts/routes.h"
#include "worker/collectives/hosts/tcp_socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

const std::string kKey(32, 'k');

// Data ports of several ranks, which are threads of this process.
class DataMeetingTest : public ::testing::Test {
 protected:
  // `files`: the TLS files of a rank; null: no rank uses TLS.
  void open(int ranks, const std::function<TlsFiles(int rank)>& files = nullptr) {
    for (int rank = 0; rank < ranks; ++rank) {
      const TlsFiles own = files == nullptr ? TlsFiles() : files(rank);
      auto port = DataPort::open("127.0.0.1:0", "", own.given() ? testing::load_tls(own) : nullptr);
      ASSERT_TRUE(port.ok()) << port.status();
      ports_.push_back(*std::move(port));
      addresses_.push_back(ports_.back()->address());
    }
  }

  DataMeetArgs args(int rank, std::vector<int> hosts) {
    DataMeetArgs args;
    args.epoch = {.epoch = 3, .key = kKey, .rank = rank, .ranks = static_cast<int>(hosts.size())};
    args.hosts = std::move(hosts);
    args.addresses = addresses_;
    args.port = ports_[rank].get();
    args.timeout = kPatience;
    args.unreachable_after = kPatience;
    args.cancelled = &cancelled_;
    return args;
  }

  // Runs every rank's meeting. `change` is called with the arguments of each rank and may change
  // them.
  std::vector<absl::StatusOr<std::vector<DataLink>>> meet(
      const std::vector<int>& hosts, const std::function<void(DataMeetArgs&)>& change = nullptr) {
    std::vector<absl::StatusOr<std::vector<DataLink>>> results(hosts.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      threads.emplace_back([&, rank] {
        DataMeetArgs own = args(static_cast<int>(rank), hosts);
        if (change != nullptr) change(own);
        results[rank] = meet_other_hosts(own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  // Expects that every rank has a link for each of its routes. Each rank sends its number over each
  // of its links, and the other end must receive it.
  void expect_met(const std::vector<int>& hosts,
                  std::vector<absl::StatusOr<std::vector<DataLink>>> results) {
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      ASSERT_TRUE(results[rank].ok()) << results[rank].status();
      EXPECT_EQ(results[rank]->size(), routes_of(hosts, static_cast<int>(rank)).size());
      for (const DataLink& link : *results[rank]) {
        const char own = static_cast<char>(rank);
        const absl::StatusOr<bool> sent = send(*link.channel, own);
        EXPECT_TRUE(sent.ok() && *sent) << sent.status();
      }
    }
    for (const auto& links : results) {
      for (const DataLink& link : *links) {
        Arriving<char> other;
        EXPECT_TRUE(becomes_true([&] {
          const absl::Status status = receive(*link.channel, other);
          EXPECT_TRUE(status.ok()) << status;
          return !status.ok() || other.missing() == 0;
        }));
        EXPECT_EQ(other.message(), link.route.rank);
      }
    }
  }

  FileDescriptor dial(int rank) {
    absl::StatusOr<FileDescriptor> socket = dial_tcp(addresses_[rank]);
    EXPECT_TRUE(socket.ok()) << socket.status();
    pollfd polled{.fd = socket->get(), .events = POLLOUT, .revents = 0};
    EXPECT_EQ(poll(&polled, 1, 10'000), 1);
    return *std::move(socket);
  }

  // The bytes that the other side sent before it closed.
  static std::string read_to_end(const FileDescriptor& socket) {
    std::string text;
    char bytes[256];
    while (true) {
      pollfd polled{.fd = socket.get(), .events = POLLIN, .revents = 0};
      if (poll(&polled, 1, 60'000) != 1) return text + " (open)";
      const ssize_t got = recv(socket.get(), bytes, sizeof(bytes), 0);
      if (got <= 0) return text;
      text.append(bytes, got);
    }
  }

  std::vector<std::unique_ptr<DataPort>> ports_;
  std::vector<std::string> addresses_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(DataMeetingTest, AnyNumberOfRanksOfDifferentHostsConnect) {
  open(5);
  for (const std::vector<int>& hosts :
       std::vector<std::vector<int>>{{0, 1}, {0, 1, 2}, {0, 0, 1}, {1, 0, 0, 1}, {0, 1, 2, 0, 1}}) {
    expect_met(hosts, meet(hosts));
  }
}

TEST_F(DataMeetingTest, TheLowerRankDialsIfTheHigherOneCannot) {
  open(2);
  expect_met({0, 1}, meet({0, 1}, [](DataMeetArgs& args) {
               args.other_way_after = milliseconds(1);
               if (args.epoch.rank == 1) args.addresses[0] = "127.0.0.1:1";
             }));
}

TEST_F(DataMeetingTest, OneConnectionIsUsedIfBothDial) {
  open(2);
  for (int round = 0; round < 30; ++round) {
    expect_met({0, 1},
               meet({0, 1}, [](DataMeetArgs& args) { args.other_way_after = milliseconds(0); }));
  }
}

TEST_F(DataMeetingTest, APairThatCannotReachEachOtherIsNamedWithBothAddresses) {
  open(2);
  const auto results = meet({0, 1}, [](DataMeetArgs& args) {
    args.other_way_after = milliseconds(0);
    args.unreachable_after = milliseconds(50);
    args.addresses[1 - args.epoch.rank] = "127.0.0.1:1";
  });
  EXPECT_TRUE(absl::IsUnavailable(results[1].status())) << results[1].status();
  EXPECT_THAT(message_of(results[1].status()),
              HasSubstr("ranks 1 and 0 cannot reach each other: rank 1 could not dial 127.0.0.1:1 "
                        "(Connection refused), and rank 1 was not dialled at " +
                        addresses_[1]));
  EXPECT_TRUE(absl::IsUnavailable(results[0].status())) << results[0].status();
}

TEST_F(DataMeetingTest, ARankWithAnotherKeyIsIgnored) {
  open(2);
  const auto results = meet({0, 1}, [](DataMeetArgs& args) {
    args.timeout = milliseconds(400);
    args.other_way_after = milliseconds(0);
    if (args.epoch.rank == 1) args.epoch.key = std::string(32, 'x');
  });
  for (const auto& result : results) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
    EXPECT_THAT(message_of(result.status()), HasSubstr("waited 400 ms for ranks of other hosts"));
  }
}

TEST_F(DataMeetingTest, AMeetingCanBeCancelled) {
  open(2);
  std::thread other([this] {
    EXPECT_TRUE(absl::IsCancelled(meet_other_hosts(args(1, {0, 1})).status()));
  });
  cancelled_ = true;
  other.join();
}

TEST_F(DataMeetingTest, StrangersWithOtherProtocolsAreDroppedAndTheMeetingContinues) {
  open(2);
  std::vector<FileDescriptor> silent;
  silent.reserve(100);
  for (int i = 0; i < 100; ++i) silent.push_back(dial(0));
  EXPECT_EQ(read_to_end(silent.front()), "");  // The limit is 64: the oldest were dropped.
  const FileDescriptor web = dial(0);
  const std::string get =
      "GET / HTTP/1.1\r\nHost: elsewhere\r\nAccept: everything, please\r\n\r\n..";
  EXPECT_EQ(send(web.get(), get.data(), get.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(get.size()));
  EXPECT_EQ(read_to_end(web), "");
  DataHello old{.version = 7};
  const FileDescriptor other = dial(0);
  EXPECT_EQ(send(other.get(), &old, sizeof(old), MSG_NOSIGNAL), static_cast<ssize_t>(sizeof(old)));
  EXPECT_EQ(read_to_end(other), "");
  expect_met({0, 1}, meet({0, 1}));
}

TEST_F(DataMeetingTest, ASilentStrangerIsDropped) {
  open(1);
  const FileDescriptor silent = dial(0);
  EXPECT_EQ(read_to_end(silent), "");
}

TEST_F(DataMeetingTest, ARecordedHandshakeCannotBeReplayed) {
  open(1);
  ports_[0]->begin({.epoch = 3, .key = kKey, .rank = 0, .ranks = 2});
  DataDialling honest(3, 1, 0);
  const FileDescriptor first = dial(0);
  send(first.get(), &honest.hello(), sizeof(DataHello), MSG_NOSIGNAL);
  while (honest.answer.missing() > 0) {
    const ssize_t got = recv(first.get(), honest.answer.next(), honest.answer.missing(), 0);
    if (got > 0) honest.answer.received(got);
  }
  ASSERT_TRUE(honest.is_proved(kKey));
  const DataProof proof = honest.proof(kKey);
  const FileDescriptor again = dial(0);  // The listener has a new nonce; hello and proof are old.
  send(again.get(), &honest.hello(), sizeof(DataHello), MSG_NOSIGNAL);
  send(again.get(), proof.data(), proof.size(), MSG_NOSIGNAL);
  EXPECT_EQ(read_to_end(again).size(), sizeof(DataAnswer));
  EXPECT_EQ(ports_[0]->take(1), nullptr);
  send(first.get(), proof.data(), proof.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(becomes_true([&] { return ports_[0]->take(1) != nullptr; }));
}

TEST_F(DataMeetingTest, ARankThatIsAheadIsAnsweredWhenItsEpochBegins) {
  open(1);
  DataDialling early(3, 1, 0);
  const FileDescriptor socket = dial(0);
  send(socket.get(), &early.hello(), sizeof(DataHello), MSG_NOSIGNAL);
  ports_[0]->begin({.epoch = 2, .key = std::string(32, 'o'), .rank = 0, .ranks = 2});
  ports_[0]->begin({.epoch = 3, .key = kKey, .rank = 0, .ranks = 2});
  while (early.answer.missing() > 0) {
    const ssize_t got = recv(socket.get(), early.answer.next(), early.answer.missing(), 0);
    ASSERT_TRUE(got > 0 || errno == EAGAIN);
    if (got > 0) early.answer.received(got);
  }
  EXPECT_TRUE(early.is_proved(kKey));
}

// --- With certificates

class DataMeetingTlsTest : public DataMeetingTest {
 protected:
  void open_tls(int ranks) {
    open(ranks, [this](int rank) { return friendly(fmt::format("rank {}", rank)); });
  }
  TlsFiles friendly(const std::string& name, int days = 1) const {
    return testing::tls_files(authority_.sign(name, days), authority_);
  }

  // The errors of ranks 0 and 1, which cannot meet.
  std::array<std::string, 2> refusals(milliseconds timeout) {
    const auto results = meet({0, 1}, [timeout](DataMeetArgs& args) {
      args.timeout = timeout;
      args.other_way_after = milliseconds(0);
    });
    for (const auto& result : results) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
    }
    return {message_of(results[0].status()), message_of(results[1].status())};
  }

  const testing::Authority authority_;
};

TEST_F(DataMeetingTlsTest, AnyNumberOfRanksOfDifferentHostsConnect) {
  open_tls(5);
  for (const std::vector<int>& hosts :
       std::vector<std::vector<int>>{{0, 1}, {0, 0, 1}, {0, 1, 2, 0, 1}}) {
    expect_met(hosts, meet(hosts));
  }
}

TEST_F(DataMeetingTlsTest, OneConnectionIsUsedIfBothDial) {
  open_tls(2);
  for (int round = 0; round < 10; ++round) {
    expect_met({0, 1},
               meet({0, 1}, [](DataMeetArgs& args) { args.other_way_after = milliseconds(0); }));
  }
}

TEST_F(DataMeetingTlsTest, TheKeyOfTheEpochIsStillRequired) {
  open_tls(2);
  const auto results = meet({0, 1}, [](DataMeetArgs& args) {
    args.timeout = milliseconds(5'000);
    if (args.epoch.rank == 1) args.epoch.key = std::string(32, 'x');
  });
  for (const auto& result : results) EXPECT_TRUE(absl::IsDeadlineExceeded(result.status()));
  EXPECT_THAT(message_of(results[1].status()),
              HasSubstr("(the process there does not know the key of this epoch)"));
}

TEST_F(DataMeetingTlsTest, ARankWithAnUntrustedCertificateIsIgnored) {
  const testing::Authority others;
  open(2, [&](int rank) {
    return rank == 0 ? friendly("friend") : testing::tls_files(others.sign("stranger"), authority_);
  });
  refusals(milliseconds(500));
}

TEST_F(DataMeetingTlsTest, TheErrorSaysWhyACertificateIsNotTrusted) {
  open(2, [&](int rank) { return friendly(fmt::format("rank {}", rank), rank == 0 ? 1 : -1); });
  EXPECT_THAT(refusals(milliseconds(5'000))[0],
              HasSubstr("TLS: its certificate is not valid: certificate has expired"));
}

TEST_F(DataMeetingTlsTest, PlainAndTlsDoNotMeet) {
  for (const int plain : {0, 1}) {
    ports_.clear();
    addresses_.clear();
    open(2, [&](int rank) {
      return rank == plain ? TlsFiles() : friendly(fmt::format("of {}", plain));
    });
    refusals(milliseconds(500));
  }
}

TEST_F(DataMeetingTlsTest, StrangersDoNotDisturbAMeeting) {
  open_tls(2);
  std::vector<FileDescriptor> silent;
  silent.reserve(100);
  for (int i = 0; i < 100; ++i) silent.push_back(dial(0));
  EXPECT_EQ(read_to_end(silent.front()), "");  // The limit is 64: the oldest were dropped.
  DataDialling plain(3, 1, 0);
  const FileDescriptor other = dial(0);
  send(other.get(), &plain.hello(), sizeof(DataHello), MSG_NOSIGNAL);
  EXPECT_EQ(read_to_end(other), "");
  const FileDescriptor begun = dial(0);  // This stranger begins a TLS handshake and then stalls.
  EXPECT_EQ(send(begun.get(), "\x16\x03\x01\x02", 4, MSG_NOSIGNAL), 4);
  expect_met({0, 1}, meet({0, 1}));
  EXPECT_EQ(read_to_end(begun), "");  // Its handshake timed out.
}

TEST_F(DataMeetingTlsTest, CertificatesMayChangeBetweenTwoMeetings) {
  const testing::Authority::Identity changing = authority_.sign("changing");
  const testing::Authority others;
  open(2, [&](int rank) {
    return rank == 0 ? friendly("friend") : testing::tls_files(changing, authority_);
  });
  expect_met({0, 1}, meet({0, 1}));
  testing::replace(changing, others.sign("stranger"));
  refusals(milliseconds(500));
  testing::replace(changing, authority_.sign("renewed"));
  expect_met({0, 1}, meet({0, 1}));
}

}  // namespace
}  // namespace lockstep
