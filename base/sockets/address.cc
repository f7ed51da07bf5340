// SPDX-License-Identifier: Apache-2.0
#include "base/sockets/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

using AddressOf = int (*)(int, sockaddr*, socklen_t*);

std::string host_of(int family, const void* number) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, number, text, sizeof text);
  return text;
}

std::string address_by(AddressOf address_of, int socket) {
  sockaddr_storage found = {};
  socklen_t bytes = sizeof found;
  if (address_of(socket, reinterpret_cast<sockaddr*>(&found), &bytes) != 0) return "";
  if (found.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(found);
    return join_address(host_of(AF_INET, &four.sin_addr), std::to_string(ntohs(four.sin_port)));
  }
  if (found.ss_family != AF_INET6) return "";
  const auto& six = reinterpret_cast<const sockaddr_in6&>(found);
  const std::string port = std::to_string(ntohs(six.sin6_port));
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    return join_address(host_of(AF_INET, &six.sin6_addr.s6_addr[12]), port);
  }
  std::string host = host_of(AF_INET6, &six.sin6_addr);
  if (six.sin6_scope_id != 0) host += "%" + std::to_string(six.sin6_scope_id);
  return join_address(host, port);
}

}  // namespace

absl::StatusOr<HostAndPort> split_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  std::string host = address.substr(0, colon == std::string::npos ? 0 : colon);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!digits || std::stoi(port) > 65535 || (!bracketed && host.find(':') != std::string::npos)) {
    return invalid_argument("{}: must be HOST:PORT, e.g. 127.0.0.1:50051 or [fd00::2]:50051",
                            printable(address));
  }
  return HostAndPort{.host = std::move(host), .port = port};
}

std::string join_address(const std::string& host, const std::string& port) {
  return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port;
}

bool is_unix_address(std::string_view address) {
  return address.starts_with(kUnixPrefix) || address.starts_with(kAbstractPrefix);
}

bool is_loopback_host(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_any_host(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

std::string local_address(int socket) { return address_by(getsockname, socket); }

std::string peer_address(int socket) { return address_by(getpeername, socket); }

bool is_on_loopback(int socket) {
  const std::string address = local_address(socket);
  if (address.empty()) return true;
  const absl::StatusOr<HostAndPort> parts = split_address(address);
  return parts.ok() && is_loopback_host(parts->host);
}

std::string network_of(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return address;
  std::string host = address.substr(0, colon);
  in6_addr six{};
  if (inet_pton(AF_INET, host.c_str(), &six) == 1) return host;
  if (!host.starts_with('[') || !host.ends_with(']')) return address;
  host = host.substr(1, std::min(host.find('%'), host.size() - 1) - 1);
  if (inet_pton(AF_INET6, host.c_str(), &six) != 1) return address;
  std::fill(std::begin(six.s6_addr) + 8, std::end(six.s6_addr), 0);
  return host_of(AF_INET6, &six);
}

}  // namespace lockstep
