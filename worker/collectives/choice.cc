// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/choice.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "worker/collectives/nccl.h"
#include "worker/collectives/staged.h"

namespace lockstep {
namespace {

// What every rank tells the others.
struct Card {
  std::array<char, 32> address{};  // Of its GPU.
  int32_t nccl_version = 0;        // 0: no library.
};

absl::StatusOr<std::vector<Card>> exchange(Collective& met, const Card& own) {
  std::vector<Card> cards(met.ranks());
  std::vector<int64_t> boundaries;
  for (int rank = 0; rank <= met.ranks(); ++rank) boundaries.push_back(rank);
  RETURN_IF_ERROR(met.all_gather({.in = &own,
                                  .in_stride = 1,
                                  .out = cards.data(),
                                  .out_stride = met.ranks(),
                                  .rows = 1,
                                  .boundaries = boundaries,
                                  .element_bytes = sizeof(Card)}));
  return cards;
}

// Why these ranks cannot use NCCL; "" where they can. The same on every rank.
std::string obstacle(const std::vector<Card>& cards) {
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].nccl_version == 0) return fmt::format("rank {} has no NCCL", rank);
    for (size_t other = 0; other < rank; ++other) {
      if (cards[other].address == cards[rank].address) {
        return fmt::format("ranks {} and {} share a GPU", other, rank);
      }
      if (cards[other].nccl_version != cards[rank].nccl_version) {
        return fmt::format("ranks {} and {} have different versions of NCCL", other, rank);
      }
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> device_collective(std::unique_ptr<Collective> met,
                                                              Device& device,
                                                              const DeviceMeeting& meeting,
                                                              std::string* choice) {
  choice->clear();
  if (device.is_host()) return met;
  if (met->ranks() == 1) return staged_collective(std::move(met), device);
  const char* file = std::getenv("LOCKSTEP_NCCL");
  const absl::StatusOr<Nccl> nccl = load_nccl(file != nullptr ? file : kNcclFile);
  Card own;
  const std::string address = device.address();
  std::memcpy(own.address.data(), address.data(), std::min(address.size(), own.address.size()));
  if (nccl.ok()) own.nccl_version = nccl->version;
  ASSIGN_OR_RETURN(const std::vector<Card> cards, exchange(*met, own));
  const std::string why_not = obstacle(cards);
  if (why_not.empty()) {
    *choice = "between GPUs, by NCCL " + nccl_version_text(nccl->version);
    return nccl_collective(*nccl, std::move(met), device, meeting.timeout, meeting.cancelled);
  }
  *choice = "by way of the host: " + why_not;
  if (!nccl.ok()) *choice += " (" + message_of(nccl.status()) + ")";
  return staged_collective(std::move(met), device);
}

}  // namespace lockstep
