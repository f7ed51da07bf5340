// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/devices/choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "worker/collectives/devices/direct.h"
#include "worker/collectives/devices/nccl.h"
#include "worker/collectives/devices/nccl_joining.h"
#include "worker/collectives/devices/peer_link.h"
#include "worker/collectives/devices/staged.h"
#include "worker/collectives/share.h"

namespace lockstep {
namespace {

// The state of a rank's NCCL.
enum class Library : int32_t { kThere, kMissing, kSwitchedOff, kStuck };

// The facts about one rank, which it sends to all others.
struct Card {
  std::array<char, 32> address{};  // The GPU's address.
  Library library = Library::kThere;
  int32_t nccl_version = 0;  // Set if NCCL was found.
  int32_t host = 0;
};

const char* text_of(Library library) {
  switch (library) {
    case Library::kMissing:
      return "has no NCCL";
    case Library::kSwitchedOff:
      return "has NCCL switched off";
    default:
      return "still waits in NCCL for peers of an earlier group";
  }
}

struct Obstacle {
  std::string text;        // Empty if there is none.
  bool on_purpose = true;  // True: NCCL was not expected to work.
};

// Names two ranks that share a GPU; "" if there are none. Kernels that wait for each other might
// never run at the same time on one GPU.
std::string shared_gpu_of(const std::vector<Card>& cards) {
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      if (cards[other].address == cards[rank].address && cards[other].host == cards[rank].host) {
        return fmt::format("ranks {} and {} share a GPU", other, rank);
      }
    }
  }
  return "";
}

// The reason why these ranks cannot use NCCL, or "". The same on every rank.
Obstacle obstacle_of(const std::vector<Card>& cards) {
  if (std::string shared = shared_gpu_of(cards); !shared.empty()) return {std::move(shared)};
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const Card& card = cards[rank];
    if (card.library != Library::kThere) {
      return {fmt::format("rank {} {}", rank, text_of(card.library)),
              card.library == Library::kSwitchedOff};
    }
    if (card.nccl_version != cards[0].nccl_version) {
      return {fmt::format("ranks 0 and {} have different versions of NCCL", rank), false};
    }
  }
  return {};
}

Card card_of(const Device& device, const DeviceMeeting& meeting, const absl::StatusOr<Nccl>& nccl) {
  Card card;
  const std::string address = device.address();
  std::memcpy(card.address.data(), address.data(), std::min(address.size(), card.address.size()));
  card.host = meeting.host;
  if (nccl.ok()) card.nccl_version = nccl->version;
  if (nccl.ok() && nccl_is_stuck()) card.library = Library::kStuck;
  if (!nccl.ok()) {
    card.library = absl::IsCancelled(nccl.status()) ? Library::kSwitchedOff : Library::kMissing;
  }
  return card;
}

// A link through memory that GPUs share. Null on all ranks if one of them cannot use it.
absl::StatusOr<std::unique_ptr<PeerLink>> link_of(const std::vector<Card>& cards, Collective& met,
                                                  Device& device, const DeviceMeeting& meeting,
                                                  std::string* problem) {
  const bool one_host =
      std::ranges::all_of(cards, [&](const Card& card) { return card.host == cards[0].host; });
  if (!one_host || cards.size() > kMaxPeers || !shared_gpu_of(cards).empty()) return nullptr;
  const char* wanted = std::getenv("LOCKSTEP_PEER_MEMORY");
  const bool off = wanted != nullptr && std::string_view(wanted) == "off";
  return PeerLink::connect(met, device,
                           {.timeout = meeting.timeout,
                            .cancelled = meeting.cancelled,
                            .off = off ? "switched off by LOCKSTEP_PEER_MEMORY" : "",
                            .pads = meeting.pads},
                           problem);
}

// Collectives by NCCL, or else through the host.
absl::StatusOr<std::unique_ptr<Collective>> library_or_host(
    std::unique_ptr<Collective> met, Device& device, const DeviceMeeting& meeting,
    const absl::StatusOr<Nccl>& nccl, Obstacle obstacle, CollectiveChoice* choice) {
  if (obstacle.text.empty()) {
    const std::string library = "NCCL " + nccl_version_text(nccl->version);
    std::string problem;
    ASSIGN_OR_RETURN(
        std::unique_ptr<Collective> collective,
        nccl_collective(*nccl, met, device, meeting.timeout, meeting.cancelled, &problem));
    choice->text = "between GPUs, by " + library;
    if (collective != nullptr) return collective;
    obstacle = {library + " failed, " + problem, false};
  } else if (absl::IsNotFound(nccl.status())) {
    obstacle.text += " (" + message_of(nccl.status()) +
                     "; pip install nvidia-nccl-cu13, or name a file with LOCKSTEP_NCCL)";
  } else if (!nccl.ok()) {
    obstacle.text += " (" + message_of(nccl.status()) + ")";
  }
  choice->fell_back = !obstacle.on_purpose;
  choice->text = "through the host: " + obstacle.text;
  return staged_collective(std::move(met), device);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> device_collective(std::unique_ptr<Collective> met,
                                                              Device& device,
                                                              const DeviceMeeting& meeting,
                                                              CollectiveChoice* choice) {
  *choice = {};
  if (device.is_host()) return met;
  if (met->ranks() == 1) return staged_collective(std::move(met), device);
  const absl::StatusOr<Nccl> nccl = load_nccl(meeting.nccl);
  ASSIGN_OR_RETURN(const std::vector<Card> cards, share(*met, card_of(device, meeting, nccl)));
  std::string problem;
  ASSIGN_OR_RETURN(std::unique_ptr<PeerLink> link, link_of(cards, *met, device, meeting, &problem));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Collective> collective,
      library_or_host(std::move(met), device, meeting, nccl, obstacle_of(cards), choice));
  if (!problem.empty()) {
    choice->text += fmt::format(" (GPUs share no memory: {})", problem);
  }
  if (link == nullptr) return collective;
  choice->text += "; sums and small gathers in memory that GPUs share";
  return direct_collective(std::move(link), std::move(collective));
}

}  // namespace lockstep
