// SPDX-License-Identifier: Apache-2.0
// Sums and gathers over memory that devices share (peer_memory.h). The data is cut into pieces.
// Block b of n blocks of threads processes the pieces b, b + n, b + 2n ..., and has its own
// channel. For a piece it copies its rank's part into its slot, meets the same block of the other
// ranks, and reads their slots. Sums are in rank order from 0, whichever rank adds and however data
// is cut. So they have the same bits on every rank, and for any number of rows. A small sum may be
// combined with the add_norm that reads it. Reads bypass stale caches: an acquire precedes every
// read of a slot.
#include "worker/kernels/cuda/peers/exchange.h"
#include "worker/kernels/cuda/peers/system_scope.h"
#include "worker/kernels/cuda/rows/norm_row.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;
static_assert(kThreads >= kMaxPeers);
constexpr int64_t kMinPieceBytes = 2 << 10;  // Less is not worth a block.
constexpr int64_t kAlign = 16;
constexpr unsigned kPollsPerCheck = 64;  // One poll in this many also checks the time and the end.

// `rows` rows of bytes, addressed as if they were contiguous.
struct Packed {
  std::byte* data;
  int64_t stride;
  int64_t row_bytes;
  int64_t rows;

  template <typename Unit>
  __device__ Unit& at(int64_t place) const {
    const int64_t row = rows == 1 ? 0 : place / row_bytes;
    return *reinterpret_cast<Unit*>(data + row * (stride - row_bytes) + place);
  }
};

// All threads of a block call these together, in the same order on every rank.
class Channel {
 public:
  __device__ explicit Channel(const PeerGroup& group) : group_(group) {
    __shared__ uint64_t first;
    __shared__ uint32_t is_over;
    if (threadIdx.x == 0) {
      first = own().next[blockIdx.x];
      is_over = load_relaxed(&own().ended);  // It may change: one thread reads it for all.
    }
    __syncthreads();
    number_ = first;
    ended = is_over != 0;
  }

  // This rank's slot, to be written before the next meet().
  __device__ std::byte* slot() const { return own().slots[number_ % 2][blockIdx.x]; }
  // Any rank's slot, to be read after meet() and before the next one.
  __device__ const std::byte* slot_of(int rank) const {
    return group_.memory[rank]->slots[(number_ - 1) % 2][blockIdx.x];
  }

  // False: a rank did not come in time, or the exchanges have ended. No further call is allowed
  // then.
  __device__ bool meet() {
    __shared__ uint32_t came[kMaxPeers];
    __syncthreads();  // The slot is complete; slots of the last meeting have been read.
    const auto peer = static_cast<int>(threadIdx.x);
    if (peer < group_.ranks) {
      store_release(&group_.memory[peer]->flags[blockIdx.x][group_.rank], number_);
      came[peer] = wait_for(peer) ? 1 : 0;
    }
    if (threadIdx.x == 0) own().next[blockIdx.x] = number_ + 1;
    __syncthreads();
    bool all = true;
    for (int rank = 0; rank < group_.ranks; ++rank) all = all && came[rank] != 0;
    ++number_;
    return all;
  }

  bool ended;

 private:
  __device__ PeerMemory& own() const { return *group_.memory[group_.rank]; }

  __device__ bool wait_for(int peer) const {
    const uint64_t* const flag = &own().flags[blockIdx.x][peer];
    uint64_t since = 0;
    for (unsigned poll = 1;; ++poll) {
      if (load_acquire(flag) - number_ <= 1) return true;
      if (poll % kPollsPerCheck == 0 && !may_wait(peer, since)) {
        store_relaxed(&own().ended, 1);
        return false;
      }
      pause(poll);
    }
  }

  __device__ bool may_wait(int peer, uint64_t& since) const {
    if (load_relaxed(group_.ended) != kPeersMeet) return false;
    const uint64_t now = nanoseconds();
    if (since == 0) since = now;
    if (now - since < group_.patience_ns) return true;
    store_relaxed(group_.ended, kPeerLate + static_cast<uint32_t>(peer));
    return false;
  }

  const PeerGroup& group_;
  uint64_t number_;
};

// Calls f(place) for each Unit of [begin, end), divided among the block's threads.
template <typename Unit, typename F>
__device__ void each_unit(int64_t begin, int64_t end, const F& f) {
  constexpr int64_t kBytes = sizeof(Unit);
  for (int64_t at = begin + threadIdx.x * kBytes; at < end; at += blockDim.x * kBytes) f(at);
}

template <int kFloats>
struct alignas(kFloats * 4) Floats {
  float at[kFloats];
};

// The sum of all ranks' slots at a place.
template <int kFloats>
__device__ Floats<kFloats> sum_of(const Channel& channel, int ranks, int64_t place) {
  using Unit = Floats<kFloats>;
  Unit parts[kMaxPeers];
#pragma unroll
  for (int r = 0; r < kMaxPeers; ++r) {
    if (r < ranks) parts[r] = *reinterpret_cast<const Unit*>(channel.slot_of(r) + place);
  }
  Unit sum = parts[0];
#pragma unroll
  for (int r = 1; r < kMaxPeers; ++r) {
#pragma unroll
    for (int i = 0; i < kFloats; ++i) {
      if (r < ranks) sum.at[i] = sum.at[i] + parts[r].at[i];
    }
  }
  return sum;
}

// `shares`: each rank sums a part of the piece, and a second exchange gives the sums to all ranks.
// Otherwise each rank sums the whole piece.
template <int kFloats>
__global__ void __launch_bounds__(kThreads) reduce_kernel(const __grid_constant__ PeerGroup group,
                                                          Packed data, int64_t piece, bool shares) {
  using Unit = Floats<kFloats>;
  Channel channel(group);
  if (channel.ended) return;
  const int64_t bytes = data.rows * data.row_bytes;
  for (int64_t begin = blockIdx.x * piece; begin < bytes; begin += gridDim.x * piece) {
    const int64_t length = min(piece, bytes - begin);
    std::byte* slot = channel.slot();
    each_unit<Unit>(0, length, [&](int64_t at) {
      *reinterpret_cast<Unit*>(slot + at) = data.at<Unit>(begin + at);
    });
    if (!channel.meet()) return;
    if (!shares) {
      each_unit<Unit>(0, length, [&](int64_t at) {
        data.at<Unit>(begin + at) = sum_of<kFloats>(channel, group.ranks, at);
      });
      continue;
    }
    const int64_t share = (length + group.ranks * kAlign - 1) / (group.ranks * kAlign) * kAlign;
    slot = channel.slot();
    each_unit<Unit>(group.rank * share, min((group.rank + 1) * share, length), [&](int64_t at) {
      *reinterpret_cast<Unit*>(slot + at) = sum_of<kFloats>(channel, group.ranks, at);
    });
    if (!channel.meet()) return;
    each_unit<Unit>(0, length, [&](int64_t at) {
      const std::byte* from = channel.slot_of(static_cast<int>(at / share));
      data.at<Unit>(begin + at) = *reinterpret_cast<const Unit*>(from + at);
    });
  }
}

constexpr int kMaxNormThreads = 1024;  // With four floats each, they hold a full slot.

// A block sums whole rows, in as many exchanges as a row fills slots, and then computes the row's
// norm. Only one block runs per multiprocessor: with two there would be too few registers.
template <int kFloats>
__global__ void __launch_bounds__(kMaxNormThreads, 1)
    reduce_norm_kernel(const __grid_constant__ PeerGroup group, TensorView x, TensorView part,
                       TensorView total, TensorView weight, TensorView out, float eps) {
  using Unit = Floats<kFloats>;
  constexpr int64_t kSlot = kPeerSlotBytes / sizeof(float);
  Channel channel(group);
  if (channel.ended) return;
  const auto unit = [](float* row, int64_t col) -> Unit& {
    return *reinterpret_cast<Unit*>(row + col);
  };
  for (int64_t row = blockIdx.x; row < x.rows; row += gridDim.x) {
    float *const other = x.row<float>(row), *const own = part.row<float>(row);
    float* const both = total.row<float>(row);
    for (int64_t begin = 0; begin < x.cols; begin += kSlot) {
      const int64_t length = min(kSlot, x.cols - begin) * sizeof(float);
      std::byte* slot = channel.slot();
      each_unit<Unit>(0, length, [&](int64_t at) {
        *reinterpret_cast<Unit*>(slot + at) = unit(own + begin, at / sizeof(float));
      });
      if (!channel.meet()) return;
      each_unit<Unit>(0, length, [&](int64_t at) {
        const int64_t col = begin + at / sizeof(float);
        Unit sum = sum_of<kFloats>(channel, group.ranks, at);
        const Unit added = unit(other, col);
        unit(own, col) = sum;
#pragma unroll
        for (int i = 0; i < kFloats; ++i) sum.at[i] = added.at[i] + sum.at[i];
        unit(both, col) = sum;
      });
    }
    __syncthreads();
    norm_row(both, static_cast<const float*>(weight.data), x.cols, eps, out, row, 0);
  }
}

// A rank's columns in `to`.
__device__ Packed columns_of(const PeerGather& gather, int rank) {
  return {gather.to + gather.boundaries[rank], gather.to_stride,
          gather.boundaries[rank + 1] - gather.boundaries[rank], gather.rows};
}

// `bytes` are those of the rank with the most columns. `placed`: this rank's columns are already in
// `to`.
template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const __grid_constant__ PeerGroup group,
                  const __grid_constant__ PeerGather gather, int64_t bytes, int64_t piece,
                  bool placed) {
  Channel channel(group);
  if (channel.ended) return;
  Packed own = columns_of(gather, group.rank);
  own.data = const_cast<std::byte*>(gather.from);
  own.stride = gather.from_stride;
  for (int64_t begin = blockIdx.x * piece; begin < bytes; begin += gridDim.x * piece) {
    std::byte* slot = channel.slot();
    each_unit<Unit>(begin, min(begin + piece, own.rows * own.row_bytes), [&](int64_t at) {
      *reinterpret_cast<Unit*>(slot + at - begin) = own.at<Unit>(at);
    });
    if (!channel.meet()) return;
    for (int rank = 0; rank < group.ranks; ++rank) {
      if (placed && rank == group.rank) continue;
      const Packed to = columns_of(gather, rank);
      const std::byte* from = channel.slot_of(rank);
      each_unit<Unit>(begin, min(begin + piece, to.rows * to.row_bytes), [&](int64_t at) {
        to.at<Unit>(at) = *reinterpret_cast<const Unit*>(from + at - begin);
      });
    }
  }
}

// How a rank's bytes are cut: by their number alone, so that all ranks cut in the same way.
struct Cut {
  int64_t blocks;
  int64_t piece;
};
Cut cut_of(int64_t bytes) {
  const int64_t blocks = min((bytes + kMinPieceBytes - 1) / kMinPieceBytes, kPeerChannels);
  if (blocks == 0) return {0, kAlign};
  const int64_t each = (bytes + blocks * kAlign - 1) / (blocks * kAlign) * kAlign;
  return {blocks, min(each, kPeerSlotBytes)};
}

}  // namespace

const char* all_reduce(const PeerGroup& group, const PeerSum& sum, void* queue) {
  Packed data{sum.data, sum.stride, sum.row_bytes, sum.rows};
  if (sum.stride == sum.row_bytes || sum.rows == 1) {
    data = {sum.data, sum.row_bytes * sum.rows, sum.row_bytes * sum.rows, 1};
  }
  const int64_t bytes = sum.row_bytes * sum.rows;
  const Cut cut = cut_of(bytes);
  const auto odds =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(data.data)) | data.stride | data.row_bytes;
  const auto kernel = odds % kAlign == 0 ? reduce_kernel<4> : reduce_kernel<1>;
  const bool shares = group.ranks > 2 && bytes >= kMinSharedSumBytes;
  return launch(kernel, {.x = cut.blocks}, kThreads, queue, group, data, cut.piece, shares);
}

const char* all_gather(const PeerGroup& group, const PeerGather& gather, void* queue) {
  int64_t widest = 0;
  auto odds = static_cast<int64_t>(reinterpret_cast<uintptr_t>(gather.from) |
                                   reinterpret_cast<uintptr_t>(gather.to)) |
              gather.from_stride | gather.to_stride;
  for (int rank = 0; rank < group.ranks; ++rank) {
    widest = max(widest, gather.boundaries[rank + 1] - gather.boundaries[rank]);
    odds |= gather.boundaries[rank + 1];
  }
  const int64_t bytes = widest * gather.rows;
  const Cut cut = cut_of(bytes);
  const bool placed = gather.from == gather.to + gather.boundaries[group.rank] &&
                      (gather.rows == 1 || gather.from_stride == gather.to_stride);
  const auto kernel = odds % 16 == 0  ? gather_kernel<Floats<4>>
                      : odds % 4 == 0 ? gather_kernel<uint32_t>
                      : odds % 2 == 0 ? gather_kernel<uint16_t>
                                      : gather_kernel<uint8_t>;
  return launch(kernel, {.x = cut.blocks}, kThreads, queue, group, gather, bytes, cut.piece,
                placed);
}

const char* reduce_add_norm(const PeerGroup& group, const KernelArgs& args) {
  const TensorView &x = args.in[0], &part = args.in[1], &total = args.out[0];
  int64_t odds = 0;
  for (const TensorView* view : {&x, &part, &total}) {
    odds |= static_cast<int64_t>(reinterpret_cast<uintptr_t>(view->data)) |
            static_cast<int64_t>(view->stride * sizeof(float));
  }
  const bool by_four = odds % kAlign == 0 && x.cols % 4 == 0;
  const int64_t units = by_four ? x.cols / 4 : x.cols;
  const int64_t threads = min((units + kWarp - 1) / kWarp * kWarp, kMaxNormThreads);
  return launch(by_four ? reduce_norm_kernel<4> : reduce_norm_kernel<1>,
                {.x = min(x.rows, kPeerChannels)},
                static_cast<int>(max(threads, norm_threads(x.cols))), args.queue, group, x, part,
                total, args.in[2], args.out[1], args.attrs.norm().eps);
}

}  // namespace lockstep::LOCKSTEP_TARGET
