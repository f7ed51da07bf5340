// SPDX-License-Identifier: Apache-2.0
// The messages by which two ranks of different hosts prove to each other that they belong to one
// epoch, and the checks of these messages; data_port.h shows their order. Sizes are fixed, so that
// a side never reads more than it expects. This file has no socket, only channels of bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "base/sockets/data_channel.h"
#include "proto/handshake.h"

namespace lockstep {

inline constexpr uint32_t kDataVersion = 1;
inline constexpr std::array<char, 8> kDataMagic = {'l', 'k', 's', 't', 'e', 'p', '-', 'd'};

// Little endian.
struct DataHello {
  std::array<char, 8> magic = kDataMagic;
  uint32_t version = kDataVersion;
  int32_t dialler = 0;
  int32_t listener = 0;
  uint32_t unused = 0;
  uint64_t epoch = 0;
  std::array<char, kNonceBytes> nonce{};
};
static_assert(sizeof(DataHello) == 64 && std::is_trivially_copyable_v<DataHello>);

struct DataAnswer {
  std::array<char, 8> magic = kDataMagic;
  std::array<char, kNonceBytes> nonce{};
  std::array<char, 32> proof{};
};
static_assert(sizeof(DataAnswer) == 72 && std::is_trivially_copyable_v<DataAnswer>);

using DataProof = std::array<char, 32>;

// A message of fixed size that arrives in pieces.
template <typename Message>
class Arriving {
 public:
  char* next() { return reinterpret_cast<char*>(&message_) + received_; }
  size_t missing() const { return sizeof(Message) - received_; }
  void received(size_t bytes) { received_ += bytes; }
  const Message& message() const { return message_; }

 private:
  Message message_{};
  size_t received_ = 0;
};

// Receives those bytes of a message that have arrived, and no byte beyond the message.
template <typename Message>
absl::Status receive(DataChannel& channel, Arriving<Message>& message) {
  const iovec rest{.iov_base = message.next(), .iov_len = message.missing()};
  if (rest.iov_len == 0) return absl::OkStatus();
  const absl::StatusOr<size_t> bytes = channel.receive({&rest, 1});
  if (bytes.ok()) message.received(*bytes);
  return bytes.status();
}

// True: the message is sent; false: try again. A message is smaller than the system's buffer, and
// is sent whole or not at all.
template <typename Message>
absl::StatusOr<bool> send(DataChannel& channel, const Message& message) {
  const iovec all{.iov_base = const_cast<Message*>(&message), .iov_len = sizeof(message)};
  const absl::StatusOr<size_t> bytes = channel.send({&all, 1});
  if (!bytes.ok()) return bytes.status();
  if (*bytes == 0 || *bytes == sizeof(message)) return *bytes > 0;
  return absl::UnavailableError("it took only a part of a message");
}

// The listening side of one connection.
class DataListening {
 public:
  Arriving<DataHello> hello;
  Arriving<DataProof> proof;

  // Checks the hello. An error is the reason to end the connection.
  absl::Status check_hello() const;
  int dialler() const { return hello.message().dialler; }
  bool answered() const { return answered_; }
  // `key` is the key of the epoch in the hello.
  DataAnswer answer(const std::string& key);
  bool is_proved(const std::string& key) const;

 private:
  DataConnection connection() const;

  std::string nonce_;
  bool answered_ = false;
};

// The dialling side.
class DataDialling {
 public:
  DataDialling() = default;
  DataDialling(uint64_t epoch, int dialler, int listener);

  Arriving<DataAnswer> answer;
  Arriving<char> end;

  const DataHello& hello() const { return hello_; }
  // Whether the answer is from the rank that was dialled.
  bool is_proved(const std::string& key) const;
  DataProof proof(const std::string& key) const;

 private:
  DataConnection connection() const;

  DataHello hello_;
};

}  // namespace lockstep
