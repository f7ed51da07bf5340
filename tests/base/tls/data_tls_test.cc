// SPDX-License-Identifier: Apache-2.0
// Data connections with TLS: all bytes arrive in order however they are split, and none are
// accepted from a peer without a certificate of the cluster.
#include "base/tls/data_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/sockets/data_channel.h"
#include "base/status.h"
#include "tests/support/network/data_tls.h"

namespace lockstep::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kSeed = 20261123;

std::pair<FileDescriptor, FileDescriptor> sockets() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  for (const int end : ends) {
    const int bytes = 4096;  // Small, so that a record may be split anywhere.
    setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::string random_bytes(size_t size, uint64_t seed) {
  std::minstd_rand random(seed);
  std::string bytes(size, 0);
  std::ranges::generate(bytes, [&] { return static_cast<char>(random() >> 8); });
  return bytes;
}

// One end: the bytes that it still has to send and receive, and the size of its pieces.
struct End {
  std::unique_ptr<DataChannel> channel;
  std::string out;
  size_t wanted = 0;
  size_t piece = 64 * 1024;
  std::string in;
  size_t sent = 0;
  absl::Status status;

  bool done() const { return !status.ok() || (sent == out.size() && in.size() == wanted); }

  // The next bytes in parts of random sizes, which stay the same until a byte has been sent.
  std::vector<iovec> parts(char* bytes, size_t size) const {
    std::minstd_rand random(kSeed + sent);
    std::vector<iovec> parts;
    for (size_t left = std::min(size, piece); left > 0 && parts.size() < 64;) {
      const size_t length = std::min<size_t>(left, random() % 5 == 0 ? 40'000 : random() % 300);
      parts.push_back({.iov_base = bytes, .iov_len = length});
      bytes += length;
      left -= length;
    }
    return parts;
  }

  bool move() {
    bool moved = false;
    if (sent < out.size()) {
      const std::string copy = out.substr(sent, piece);  // A retry has the bytes at a new address.
      const auto bytes = channel->send(parts(const_cast<char*>(copy.data()), copy.size()));
      if (!bytes.ok()) return fail(bytes.status());
      sent += *bytes;
      moved = *bytes > 0;
    }
    if (in.size() < wanted) {
      std::string space(std::min(wanted - in.size(), piece), 0);
      const auto bytes = channel->receive(parts(space.data(), space.size()));
      if (!bytes.ok()) return fail(bytes.status());
      in.append(space, 0, *bytes);
      moved = moved || *bytes > 0;
    }
    return moved;
  }

  bool fail(const absl::Status& why) {
    status = why;
    return false;
  }
};

// Runs until both ends are done. If neither end can make progress, poll() must report when one of
// them can.
void pump(End& first, End& second) {
  while (!first.done() || !second.done()) {
    bool moved = false;
    for (End* end : {&first, &second}) moved = (!end->done() && end->move()) || moved;
    if (moved) continue;
    std::vector<pollfd> polled;
    for (const End* end : {&first, &second}) {
      if (end->done()) continue;
      polled.push_back({.fd = end->channel->socket().get(),
                        .events = end->channel->events(end->sent < end->out.size(),
                                                       end->in.size() < end->wanted)});
    }
    if (polled.empty()) return;
    ASSERT_GT(poll(polled.data(), polled.size(), 60'000), 0) << "both ends wait forever";
  }
}

class DataTlsTest : public ::testing::Test {
 protected:
  TlsFiles files(const std::string& name, int days = 1) const {
    return tls_files(authority_.sign(name, days), authority_);
  }

  static std::array<End, 2> ends(DataTls& listening, DataTls& dialling) {
    auto [first, second] = sockets();
    std::array<End, 2> ends;
    ends[0].channel = open_channel(listening, std::move(first), DataTls::Side::kListens);
    ends[1].channel = open_channel(dialling, std::move(second), DataTls::Side::kDials);
    return ends;
  }

  // Sends a byte both ways and returns each side's result.
  static std::array<absl::Status, 2> greet(DataTls& listening, DataTls& dialling) {
    auto [first, second] = ends(listening, dialling);
    for (End* end : {&first, &second}) {
      end->out = "!";
      end->wanted = 1;
    }
    pump(first, second);
    return {first.status, second.status};
  }

  const Authority authority_;
};

TEST_F(DataTlsTest, EveryByteArrivesBothWaysAtOnceForAnyPieces) {
  for (const int64_t records_per_key : {int64_t{3}, DataTls::kRecordsPerKey}) {
    const auto tls = load_tls(files("one"), records_per_key);
    const auto other = load_tls(files("other"), records_per_key);
    auto [first, second] = ends(*tls, *other);
    first.out = random_bytes(1 << 20, 1);
    second.out = random_bytes((1 << 20) + 17, 2);
    first.wanted = second.out.size();
    second.wanted = first.out.size();
    second.piece = 20'000;
    pump(first, second);
    EXPECT_TRUE(first.status.ok() && second.status.ok()) << first.status << second.status;
    EXPECT_TRUE(first.in == second.out && second.in == first.out);
  }
}

TEST_F(DataTlsTest, ManyBytesCanBeReadOneByOne) {
  const auto tls = load_tls(files("one"));
  auto [first, second] = ends(*tls, *tls);
  first.out = random_bytes(20'000, 3);
  second.wanted = first.out.size();
  second.piece = 1;
  pump(first, second);
  EXPECT_TRUE(second.in == first.out) << first.status << second.status;
}

TEST_F(DataTlsTest, APeerLostInMidRecordIsReportedAfterTheReceivedBytes) {
  const auto tls = load_tls(files("one"));
  auto [first, second] = ends(*tls, *tls);
  first.out = "!";
  second.wanted = 1;
  pump(first, second);
  first.out += random_bytes(1 << 20, 4);
  while (first.move()) {
  }
  EXPECT_LT(first.sent, first.out.size());
  first.channel.reset();
  second.wanted = first.out.size();
  while (second.move()) {
  }
  EXPECT_EQ(second.in, first.out.substr(0, second.in.size()));
  EXPECT_GE(second.in.size(), first.sent);  // All complete records arrived.
  EXPECT_TRUE(absl::IsUnavailable(second.status)) << second.status;
  EXPECT_THAT(message_of(second.status),
              AnyOf("it closed its connection", "Connection reset by peer"));
  EXPECT_EQ(second.channel->receive({}).status(), second.status);  // Later calls give it, too.
}

TEST_F(DataTlsTest, AnUntrustedCertificateIsRefusedByEitherSide) {
  const Authority others;
  const auto good = load_tls(files("good"));
  const auto late = load_tls(files("late", -1));
  const auto stranger = load_tls(tls_files(others.sign("stranger"), authority_));
  const auto misled = load_tls(tls_files(authority_.sign("misled"), others));
  const struct {
    DataTls& listening;
    DataTls& dialling;
    int finds;  // The side that refuses: the listening (0) or the dialling (1) one.
    const char* what;
  } cases[] = {
      {*good, *late, 0, "TLS: its certificate is not valid: certificate has expired"},
      {*late, *good, 1, "TLS: its certificate is not valid: certificate has expired"},
      {*good, *stranger, 0, "TLS: its certificate is not valid: "},
      {*stranger, *good, 1, "TLS: its certificate is not valid: "},
      {*misled, *good, 0, "TLS: its certificate is not valid: "},
      {*good, *misled, 1, "TLS: its certificate is not valid: "},
  };
  for (const auto& one : cases) {
    const auto found = greet(one.listening, one.dialling);
    EXPECT_TRUE(absl::IsDataLoss(found[one.finds])) << found[one.finds];
    EXPECT_THAT(message_of(found[one.finds]), HasSubstr(one.what));
    EXPECT_FALSE(found[1 - one.finds].ok());
  }
  for (const absl::Status& status : greet(*good, *good)) EXPECT_TRUE(status.ok()) << status;
}

TEST_F(DataTlsTest, ACertificateForOneUseWorksOnEitherSide) {
  for (const char* uses : {"serverAuth", "clientAuth"}) {
    const auto tls = load_tls(tls_files(authority_.sign("worker", 1, uses), authority_));
    for (const absl::Status& status : greet(*tls, *tls)) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(DataTlsTest, APeerThatDoesNotSpeakTlsIsRefused) {
  const auto tls = load_tls(files("one"));
  auto [own, other] = sockets();
  const auto channel = open_channel(*tls, std::move(own), DataTls::Side::kListens);
  ASSERT_EQ(send(other.get(), "lkstep-d and so on", 18, MSG_NOSIGNAL), 18);
  std::array<char, 8> space;
  const iovec part{.iov_base = space.data(), .iov_len = space.size()};
  const absl::StatusOr<size_t> received = channel->receive({&part, 1});
  EXPECT_TRUE(absl::IsDataLoss(received.status())) << received.status();
  EXPECT_THAT(message_of(received.status()), StartsWith("TLS: "));
}

TEST_F(DataTlsTest, ChangedFilesAreReadAndUsedOnlyIfTheyMatch) {
  const Authority others;
  const Authority::Identity identity = authority_.sign("first");
  const auto changing = load_tls(tls_files(identity, authority_));
  const auto good = load_tls(files("good"));
  const auto works = [&] {
    const auto found = greet(*good, *changing);
    return found[0].ok() && found[1].ok();
  };
  EXPECT_TRUE(works());
  std::ofstream(identity.key) << "no key";
  EXPECT_TRUE(works());  // The last good files are used.
  replace(identity, others.sign("stranger"));
  EXPECT_FALSE(works());
  replace(identity, authority_.sign("second"));
  EXPECT_TRUE(works());
}

TEST_F(DataTlsTest, FilesThatDoNotMatchAreNamedAtTheStart) {
  const TlsFiles mixed{.cert = authority_.sign("one").cert,
                       .key = authority_.sign("another").key,
                       .ca = authority_.path()};
  const absl::Status status = DataTls::load(mixed).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("TLS key " + mixed.key));
}

}  // namespace
}  // namespace lockstep::testing
