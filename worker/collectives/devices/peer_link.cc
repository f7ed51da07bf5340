// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/devices/peer_link.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <thread>

#include "base/status.h"
#include "worker/collectives/outcome.h"
#include "worker/collectives/share.h"

namespace lockstep {
namespace {

// The facts about one rank, which it sends to all others.
struct Card {
  PeerHandle handle;
  uint64_t first = 0;  // The first exchange's number; all ranks use rank 0's.
  bool can = false;    // Its device can reach peers' memory.
  bool pads = false;   // See PeerLinkArgs.
};

uint64_t drawn() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

absl::Status unavailable_because(const std::string& problem) {
  return absl::UnavailableError(problem.substr(0, problem.find('\n')));
}

std::atomic_ref<uint32_t> word(std::byte* memory) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(memory));
}

}  // namespace

PeerLink::PeerLink(Collective& met, Device& device, const PeerLinkArgs& args)
    : device_(device),
      access_(device.peer_access()),
      timeout_(args.timeout),
      cancelled_(args.cancelled),
      ended_(device, sizeof(uint64_t)) {
  group_.rank = met.rank();
  group_.ranks = met.ranks();
  group_.ended = reinterpret_cast<uint32_t*>(ended_.data());
  if (ended_.data() != nullptr) *group_.ended = kPeersMeet;
}

PeerLink::~PeerLink() {
  if (ended_.data() != nullptr) abort();
  static_cast<void>(device_.synchronize());
  for (size_t rank = 0; rank < handles_.size(); ++rank) {
    PeerMemory* const memory = group_.memory[rank];
    if (static_cast<int>(rank) != group_.rank && memory != nullptr) {
      access_->close(handles_[rank], memory);
    }
  }
}

absl::StatusOr<std::unique_ptr<PeerLink>> PeerLink::connect(Collective& met, Device& device,
                                                            const PeerLinkArgs& args,
                                                            std::string* problem) {
  problem->clear();
  std::unique_ptr<PeerLink> link(new PeerLink(met, device, args));
  Card card{.first = drawn(), .can = link->access_ != nullptr, .pads = args.pads};
  absl::Status own;
  if (!card.can) {
    own = absl::UnavailableError("its device cannot reach the memory of other devices");
  } else if (!args.off.empty()) {
    own = absl::UnavailableError(args.off);
  } else if (link->ended_.data() == nullptr) {
    own = absl::UnavailableError("the system refused locked memory");
  } else {
    std::string text;
    link->group_.memory[met.rank()] = link->access_->own(&card.handle, &text);
    if (link->group_.memory[met.rank()] == nullptr) own = unavailable_because(text);
    // The memory is cleared before any rank may write to it.
    if (const char* failure = device.synchronize(); failure != nullptr) {
      own = absl::UnavailableError(failure);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<Card> cards, share(met, card));
  if (std::ranges::none_of(cards, &Card::can)) return nullptr;
  ASSIGN_OR_RETURN(*problem, share_outcome(met, own));
  if (!problem->empty()) return nullptr;
  link->all_pad_ = std::ranges::all_of(cards, &Card::pads);
  std::vector<PeerHandle> handles;
  handles.reserve(cards.size());
  for (const Card& each : cards) handles.push_back(each.handle);
  own = link->open(handles, cards[0].first);
  ASSIGN_OR_RETURN(*problem, share_outcome(met, own));
  if (!problem->empty()) return nullptr;
  own = link->try_out();
  if (own.code() == absl::StatusCode::kAborted) return own;
  ASSIGN_OR_RETURN(*problem, share_outcome(met, own));
  if (!problem->empty()) return nullptr;
  link->cancelled_ = nullptr;
  link->group_.patience_ns = static_cast<uint64_t>(args.timeout.count());
  return link;
}

absl::Status PeerLink::open(const std::vector<PeerHandle>& handles, uint64_t first) {
  handles_ = handles;
  for (int rank = 0; rank < group_.ranks; ++rank) {
    if (rank == group_.rank) continue;
    std::string text;
    group_.memory[rank] = access_->open(handles[rank], &text);
    if (group_.memory[rank] == nullptr) {
      return unavailable_because(fmt::format("the memory of rank {}: {}", rank, text));
    }
  }
  // The group begins, so its channels get their first numbers, and `ended` becomes 0. Flags stay as
  // they are.
  constexpr int64_t kBytes = offsetof(PeerMemory, ended) + sizeof(PeerMemory::ended);
  const StagingMemory staging(device_, sizeof(PeerMemory::next) + sizeof(uint64_t));
  if (staging.data() == nullptr) return unavailable_because("the system refused locked memory");
  auto* const numbers = reinterpret_cast<uint64_t*>(staging.data());
  std::fill_n(numbers, kPeerChannels, first);
  numbers[kPeerChannels] = 0;
  device_.copy_in(reinterpret_cast<std::byte*>(group_.memory[group_.rank]), numbers, kBytes);
  const char* failure = device_.synchronize();
  return failure == nullptr ? absl::OkStatus() : unavailable_because(failure);
}

// Tries sums over one channel and over all channels. Each slot is used twice, to check that a GPU
// reads another GPU's new value where it has read an old one before.
absl::Status PeerLink::try_out() {
  constexpr int64_t kMax = kPeerChannels * kPeerSlotBytes / 4 / sizeof(float);
  const DeviceMemory on_device(device_, kMax * sizeof(float));
  const StagingMemory here(device_, kMax * sizeof(float));
  absl::Status status;
  if (on_device.data() == nullptr || here.data() == nullptr) {
    status = unavailable_because("no memory for a trial");
  }
  group_.patience_ns = static_cast<uint64_t>(timeout_.count() / 2);
  for (const int64_t numbers : {int64_t{100}, kMax, kMax, kMax - 1, int64_t{3}}) {
    if (!status.ok()) break;
    status = try_sum(on_device.data(), reinterpret_cast<float*>(here.data()), numbers);
  }
  const char* failure = device_.synchronize();  // The memory is about to be freed.
  return failure == nullptr ? status : unavailable_because(failure);
}

absl::Status PeerLink::try_sum(std::byte* on_device, float* here, int64_t numbers) {
  const int64_t bytes = numbers * static_cast<int64_t>(sizeof(float));
  const auto number_of = [&](int rank, int64_t i) {
    return static_cast<float>((i * 7 + numbers) % 1000 * (rank + 1));
  };
  for (int64_t i = 0; i < numbers; ++i) here[i] = number_of(group_.rank, i);
  device_.copy_in(on_device, here, bytes);
  RETURN_IF_ERROR(all_reduce({.data = on_device, .stride = bytes, .row_bytes = bytes, .rows = 1}));
  RETURN_IF_ERROR(finish());
  device_.copy_out(here, on_device, bytes);
  if (const char* failure = device_.synchronize(); failure != nullptr) {
    return unavailable_because(failure);
  }
  for (int64_t i = 0; i < numbers; ++i) {
    float wanted = 0;
    for (int rank = 0; rank < group_.ranks; ++rank) wanted = wanted + number_of(rank, i);
    if (here[i] == wanted) continue;
    return unavailable_because(
        fmt::format("the ranks' sum must be {1}, found {0}", here[i], wanted));
  }
  return absl::OkStatus();
}

absl::Status PeerLink::queued(const char* failure) {
  if (failure == nullptr) return absl::OkStatus();
  failure_ = absl::InternalError(fmt::format("{}: {}", device_.name(), failure));
  abort();  // Queued work must not wait for peers any more.
  return failure_;
}

absl::Status PeerLink::all_reduce(const PeerSum& sum) {
  RETURN_IF_ERROR(failure_);
  return queued(access_->all_reduce(group_, sum));
}

absl::Status PeerLink::all_gather(const PeerGather& gather) {
  RETURN_IF_ERROR(failure_);
  return queued(access_->all_gather(group_, gather));
}

absl::Status PeerLink::reduce_add_norm(const KernelArgs& args) {
  RETURN_IF_ERROR(failure_);
  return queued(access_->reduce_add_norm(group_, args));
}

absl::Status PeerLink::state() const {
  const uint32_t ended = word(ended_.data()).load();
  if (ended == kPeersMeet) return absl::OkStatus();
  if (ended == kPeersAborted) {
    return absl::AbortedError(fmt::format("aborted on rank {}", group_.rank));
  }
  return absl::DeadlineExceededError(fmt::format("waited {:.1f} s for the GPU of rank {}",
                                                 static_cast<double>(group_.patience_ns) * 1e-9,
                                                 ended - kPeerLate));
}

absl::Status PeerLink::finish() {
  RETURN_IF_ERROR(failure_);
  while (!device_.done()) {
    if (cancelled_ != nullptr && cancelled_->load()) abort();
    std::this_thread::yield();
  }
  return failure_ = state();
}

void PeerLink::abort() {
  uint32_t meets = kPeersMeet;
  word(ended_.data()).compare_exchange_strong(meets, kPeersAborted);
}

}  // namespace lockstep
