// SPDX-License-Identifier: Apache-2.0
// A multiplying thread's part of a tile: how it is added up and stored.
#pragma once

#include "worker/kernels/cuda/hopper/linear/wgmma_stages.h"
#include "worker/kernels/cuda/hopper/wgmma.h"

namespace lockstep::LOCKSTEP_TARGET {

// A thread's part of a warpgroup's tile: sums of the slice, and totals.
template <DType kWeight, typename T, int kTileRows>
struct WgmmaTile {
  using Shared = WgmmaShared<kWeight, kTileRows>;
  static constexpr int kSums = kTileRows / 2;
  static constexpr int kUnits = static_cast<int>(device::kSliceUnits);
  Shared shared;
  int warp;  // The warp's number among the multiplying warps; its stripe has the same number.
  int lane;
  RingPlace<Shared::kStages> at;
  Words2 scales;  // Scales of q8c's rows, for all columns.
  float totals[kSums];

  __device__ WgmmaTile(const Shared& of_block, int thread)
      : shared(of_block), warp(thread / kWarp), lane(thread % kWarp) {}

  __device__ void load_head(const Product& product, int matrix, int64_t stripe) {
    WeightWords<kWeight> words;
    const int64_t there = matrix * int64_t{product.stripes()} + min(stripe, product.stripes() - 1);
    words.load_head(product.weight + there * device::FragmentBytes<kWeight>::stripe(product.x.cols),
                    lane);
    scales = words.scales;
  }

  // Loads the registers of wgmma's operand A, the weights, for two steps.
  template <int kHalf>
  __device__ void load_words(uint32_t (&a)[2][4]) const {
    WeightWords<kWeight> words;
    words.scales = scales;
    const SharedAddress unit = shared.weights(at.stage) + warp * Shared::kUnit;
    words.template load_half<kHalf>(shared_bytes(unit), lane);
    words.words_of(2 * kHalf, a[0]);
    words.words_of(2 * kHalf + 1, a[1]);
  }

  __device__ static void multiply(float (&sums)[kSums], const uint32_t (&a)[2][4], uint64_t rows,
                                  int keep) {
    pin(sums);
    wgmma_fence();
    Wgmma<T, kTileRows>::add(sums, a[0], rows, keep);
    Wgmma<T, kTileRows>::add(sums, a[1], rows + 2, 1);
    wgmma_commit();
  }

  __device__ void release(int stage) const {
    if (lane < kCluster) barrier_arrive(shared.empty(stage), lane);
  }

  // Adds up all units of a tile. While two steps are multiplied, the words of the next two are
  // loaded.
  __device__ void add_units(int units) {
    uint32_t a[2][4], b[2][4];
    float sums[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = totals[i] = 0;
    barrier_wait(shared.full(at.stage), at.parity);
    load_words<0>(a);
    int unit = 0;
#pragma unroll 1
    do {
      int keep = 0;
#pragma unroll 1
      do {
        const uint64_t rows = rows_descriptor(shared.x(at.stage));
        multiply(sums, a, rows, keep);
        wgmma_wait<1>();
        pin(sums);
        if (keep != 0) release(at.before());
        load_words<1>(b);
        multiply(sums, b, rows + 4, 1);
        wgmma_wait<1>();
        pin(sums);
        at.advance();
        if (++unit < units) {
          barrier_wait(shared.full(at.stage), at.parity);
          load_words<0>(a);
        }
        keep = 1;
      } while (unit < units && unit % kUnits != 0);
      wgmma_wait<0>();
      pin(sums);
      release(at.before());
#pragma unroll
      for (int i = 0; i < kSums; ++i) totals[i] = totals[i] + sums[i];
    } while (unit < units);
  }

  template <typename Work>
  __device__ void store(const Work& work, const TileRows& rows, int stripe) const {
    const Product& product = work.product;
    const int group = lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t col = stripe * device::kStripeRows + half * 8 + group;
      if (col >= product.out.cols) continue;
      const bool biased = product.bias.data != nullptr;
      const float bias =
          biased ? product.bias.row<float>(0)[rows.matrix * product.out.cols + col] : 0.0f;
      const auto to = work.column(rows.begin + pair, col);
#pragma unroll
      for (int i = 0; i < kSums / 2; ++i) {
        const float total = totals[i / 2 * 4 + half * 2 + i % 2];
        const int row = i / 2 * 8 + i % 2;
        if (row + pair < rows.count) to.at(row) = biased ? total + bias : total;
      }
    }
  }

  // Copies totals to the thread's part of shared memory, which a loop can index. A loop over
  // registers must be unrolled, and would contain the code of store_pair() kSums / 2 times.
  __device__ void store_pairs(const Product& product, int stripe, int64_t first_row) const {
    constexpr int kThreads = 2 * kWarpgroup;
    const int group = lane / 4, pair = lane % 4 * 2;
    float* const own = reinterpret_cast<float*>(shared_bytes(shared.own())) + warp * kWarp + lane;
    const int64_t col = int64_t{stripe} * device::kStripeRows / 2 + group;
#pragma unroll 1
    for (int first = 0; first < kSums; first += Shared::kOwn) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        if (i - i % Shared::kOwn == first) own[i % Shared::kOwn * kThreads] = totals[i];
      }
#pragma unroll 1
      for (int i = 0; i < Shared::kOwn / 2; ++i) {
        const float* const sum = own + (i / 2 * 4 + i % 2) * kThreads;
        product.store_pair(first_row + (first / 4 + i / 2) * 8 + pair + i % 2, col, sum[0],
                           sum[2 * kThreads]);
      }
    }
  }
};

}  // namespace lockstep::LOCKSTEP_TARGET
