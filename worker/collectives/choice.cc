// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/choice.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "worker/collectives/nccl.h"
#include "worker/collectives/share.h"
#include "worker/collectives/staged.h"

namespace lockstep {
namespace {

// What every rank tells the others.
struct Card {
  std::array<char, 32> address{};  // Of its GPU.
  int32_t nccl_version = 0;        // 0: no library.
  int32_t host = 0;
};

// Why these ranks cannot use NCCL; "" where they can. The same on every rank.
std::string obstacle(const std::vector<Card>& cards) {
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].nccl_version == 0) return fmt::format("rank {} has no NCCL", rank);
    for (size_t other = 0; other < rank; ++other) {
      if (cards[other].address == cards[rank].address && cards[other].host == cards[rank].host) {
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

std::string nccl_file() {
  const char* named = std::getenv("LOCKSTEP_NCCL");
  return named != nullptr ? named : kNcclFile;
}

absl::StatusOr<std::unique_ptr<Collective>> device_collective(std::unique_ptr<Collective> met,
                                                              Device& device,
                                                              const DeviceMeeting& meeting,
                                                              CollectiveChoice* choice) {
  *choice = {};
  if (device.is_host()) return met;
  if (met->ranks() == 1) return staged_collective(std::move(met), device);
  const absl::StatusOr<Nccl> nccl = load_nccl(meeting.nccl);
  Card own;
  const std::string address = device.address();
  std::memcpy(own.address.data(), address.data(), std::min(address.size(), own.address.size()));
  own.host = meeting.host;
  if (nccl.ok()) own.nccl_version = nccl->version;
  ASSIGN_OR_RETURN(const std::vector<Card> cards, share(*met, own));
  std::string why_not = obstacle(cards);
  if (why_not.empty()) {
    const std::string library = "NCCL " + nccl_version_text(nccl->version);
    ASSIGN_OR_RETURN(
        std::unique_ptr<Collective> collective,
        nccl_collective(*nccl, met, device, meeting.timeout, meeting.cancelled, &why_not));
    choice->text = "between GPUs, by " + library;
    if (collective != nullptr) return collective;
    choice->fell_back = true;
    why_not = library + " failed, " + why_not;
  } else if (!nccl.ok()) {
    why_not += " (" + message_of(nccl.status()) + ")";
  }
  choice->text = "by way of the host: " + why_not;
  return staged_collective(std::move(met), device);
}

}  // namespace lockstep
