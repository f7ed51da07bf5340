// SPDX-License-Identifier: Apache-2.0
// Median microseconds of an all_gather between two hosts, and a lower bound, the floor: the same
// bytes in both directions on a plain socket, without any sleep.
//   hosts_bench --rank 0 --address 10.0.0.1:7000     on the first host, which listens
//   hosts_bench --rank 1 --address 10.0.0.1:7000     on the second
// Sizes are those of one rank's part. Floor and all_gather alternate, so that a disturbance affects
// both. tools/bench/namespaces.sh makes two hosts of one machine.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "worker/collectives/host/region.h"
#include "worker/collectives/host/shared_memory.h"
#include "worker/collectives/hosts/tcp_socket.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kSizes[] = {2 << 10, 8 << 10, 64 << 10, 512 << 10};
constexpr int kRounds = 20;

// On rank 0 accepts the next caller, on rank 1 connects.
absl::StatusOr<FileDescriptor> connection(int rank, const FileDescriptor& listener,
                                          const std::string& address) {
  while (rank == 0) {
    pollfd polled{.fd = listener.get(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, 1000);
    ASSIGN_OR_RETURN(FileDescriptor caller, accept_tcp(listener));
    if (caller.valid()) return caller;
  }
  while (true) {
    ASSIGN_OR_RETURN(FileDescriptor socket, dial_tcp(address));
    pollfd polled{.fd = socket.get(), .events = POLLOUT, .revents = 0};
    poll(&polled, 1, 1000);
    if (connect_error(socket) == 0) return socket;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

absl::Status exchange(const FileDescriptor& socket, const std::vector<char>& out,
                      std::vector<char>& in) {
  size_t sent = 0, received = 0;
  while (sent < out.size() || received < in.size()) {
    if (sent < out.size()) {
      const ssize_t n =
          send(socket.get(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) sent += n;
    }
    if (received < in.size()) {
      const ssize_t n =
          recv(socket.get(), in.data() + received, in.size() - received, MSG_DONTWAIT);
      if (n == 0) return unavailable("the other rank is gone");
      if (n > 0) received += n;
    }
  }
  return absl::OkStatus();
}

template <typename Body>
absl::Status measure(int repeats, std::vector<double>& times, const Body& body) {
  for (int i = 0; i < repeats; ++i) {
    const Clock::time_point start = Clock::now();
    RETURN_IF_ERROR(body());
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return absl::OkStatus();
}

double median(std::vector<double>& times) {
  std::ranges::nth_element(times, times.begin() + static_cast<ptrdiff_t>(times.size()) / 2);
  return times[times.size() / 2];
}

absl::Status bench(int rank, const std::string& address) {
  FileDescriptor listener;
  if (rank == 0) {
    ASSIGN_OR_RETURN(listener, listen_tcp(address, 8));
  }
  ASSIGN_OR_RETURN(const FileDescriptor bare, connection(rank, listener, address));
  std::vector<DataLink> links(1);
  links[0].route = {.rank = 1 - rank, .sends = true, .receives = true};
  ASSIGN_OR_RETURN(FileDescriptor socket, connection(rank, listener, address));
  links[0].channel = plain_channel(std::move(socket));
  const std::vector<int> hosts = {0, 1};
  SharedMemoryCollective group(
      Region::in_process({.shared_bytes = 2 << 20, .numbers = {rank}, .slots = 2}), 0,
      kCollectiveTimeout, hosts, std::make_unique<TcpLinks>(std::move(links)));
  if (rank == 0) fmt::print("{:>10}{:>12}{:>14}{:>8}\n", "bytes", "floor us", "all_gather us", "");
  for (const int64_t bytes : kSizes) {
    const std::vector<char> out(bytes, 1);
    std::vector<char> in(bytes);
    const std::vector<int64_t> boundaries = {0, bytes, 2 * bytes};
    const GatherArgs args{.in = group.shared().data() + rank * bytes,
                          .in_stride = 2 * bytes,
                          .out = group.shared().data(),
                          .out_stride = 2 * bytes,
                          .rows = 1,
                          .boundaries = boundaries,
                          .element_bytes = 1};
    const int repeats = static_cast<int>(std::clamp<int64_t>((4 << 20) / bytes, 50, 500));
    std::vector<double> floor, gather;
    for (int round = 0; round < kRounds; ++round) {
      RETURN_IF_ERROR(measure(repeats, floor, [&] { return exchange(bare, out, in); }));
      RETURN_IF_ERROR(measure(repeats, gather, [&] { return group.all_gather(args); }));
    }
    const double min = median(floor), found = median(gather);
    if (rank == 0) fmt::print("{:>10}{:>12.1f}{:>14.1f}{:>8.2f}\n", bytes, min, found, found / min);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  int rank = -1;
  std::string address;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--rank") rank = std::atoi(argv[i + 1]);
    if (flag == "--address") address = argv[i + 1];
  }
  if ((rank != 0 && rank != 1) || address.empty()) {
    fmt::print(stderr, "usage: hosts_bench --rank 0|1 --address ADDRESS:PORT\n");
    return 2;
  }
  const absl::Status status = lockstep::bench(rank, address);
  if (status.ok()) return 0;
  fmt::print(stderr, "hosts_bench: {}\n", lockstep::message_of(status));
  return 1;
}
