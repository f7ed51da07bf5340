// SPDX-License-Identifier: Apache-2.0
#include "worker/data/data_handshake.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

template <size_t kBytes>
std::string_view text_of(const std::array<char, kBytes>& bytes) {
  return {bytes.data(), bytes.size()};
}

template <size_t kBytes>
std::array<char, kBytes> array_of(std::string_view text) {
  LOCKSTEP_CHECK(text.size() == kBytes);
  std::array<char, kBytes> bytes;
  std::ranges::copy(text, bytes.begin());
  return bytes;
}

}  // namespace

absl::Status DataListening::check_hello() const {
  const DataHello& found = hello.message();
  if (found.magic != kDataMagic) return absl::InvalidArgumentError("it is not a rank");
  if (found.version != kDataVersion) {
    return invalid_argument(
        "its version of the data connection must be {1}, found {0}: install one version on all "
        "hosts",
        found.version, kDataVersion);
  }
  return absl::OkStatus();
}

DataConnection DataListening::connection() const {
  const DataHello& found = hello.message();
  return {.epoch = found.epoch,
          .dialler = found.dialler,
          .listener = found.listener,
          .dialler_nonce = text_of(found.nonce),
          .listener_nonce = nonce_};
}

DataAnswer DataListening::answer(const std::string& key) {
  nonce_ = draw_nonce();
  answered_ = true;
  return {.nonce = array_of<kNonceBytes>(nonce_),
          .proof = array_of<32>(listener_proof(key, connection()))};
}

bool DataListening::is_proved(const std::string& key) const {
  return same_secret(text_of(proof.message()), dialler_proof(key, connection()));
}

DataDialling::DataDialling(uint64_t epoch, int dialler, int listener)
    : hello_{.dialler = dialler,
             .listener = listener,
             .epoch = epoch,
             .nonce = array_of<kNonceBytes>(draw_nonce())} {}

DataConnection DataDialling::connection() const {
  return {.epoch = hello_.epoch,
          .dialler = hello_.dialler,
          .listener = hello_.listener,
          .dialler_nonce = text_of(hello_.nonce),
          .listener_nonce = text_of(answer.message().nonce)};
}

bool DataDialling::is_proved(const std::string& key) const {
  return answer.message().magic == kDataMagic &&
         same_secret(text_of(answer.message().proof), listener_proof(key, connection()));
}

DataProof DataDialling::proof(const std::string& key) const {
  return array_of<32>(dialler_proof(key, connection()));
}

}  // namespace lockstep
