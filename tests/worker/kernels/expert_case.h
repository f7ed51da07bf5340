// SPDX-License-Identifier: Apache-2.0
// Calls of expert_linear for tests.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "tests/worker/kernels/weights_case.h"

namespace lockstep {

inline Matrix ids_of(const std::vector<int32_t>& ids) {
  Matrix matrix(static_cast<int64_t>(ids.size()), 1, DType::kI32);
  for (size_t i = 0; i < ids.size(); ++i)
    *matrix.view().row<int32_t>(static_cast<int64_t>(i)) = ids[i];
  return matrix;
}

// `chosen` ascending experts for each token, unevenly: low numbers often, some perhaps never.
inline std::vector<int32_t> random_ids(int64_t tokens, int64_t chosen, int64_t experts) {
  std::mt19937 generator(kTestSeed);
  std::geometric_distribution<int32_t> draw(0.2);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < tokens; ++t) {
    std::set<int32_t> own;
    while (std::ssize(own) < chosen) own.insert(draw(generator) % static_cast<int32_t>(experts));
    ids.insert(ids.end(), own.begin(), own.end());
  }
  return ids;
}

struct ExpertSizes {
  int64_t tokens, chosen, experts, cols, depth;
};

// A call of expert_linear. `routed`: x has a row for each route, as in the down projection; else x
// has a row for each token.
struct ExpertCase {
  ExpertSizes sizes;
  std::vector<int32_t> ids;
  Matrix routes, x, bias;
  std::vector<Weights> weights;  // By expert.

  ExpertCase(const KernelEntry& kernel, const ExpertSizes& s, bool routed)
      : ExpertCase(kernel, s, routed, random_ids(s.tokens, s.chosen, s.experts)) {}
  ExpertCase(const KernelEntry& kernel, const ExpertSizes& s, bool routed,
             std::vector<int32_t> ids_of_routes)
      : sizes(s),
        ids(std::move(ids_of_routes)),
        routes(ids_of(ids)),
        x(Matrix::random(routed ? s.tokens * s.chosen : s.tokens, s.depth, 1, kernel.activation,
                         s.depth + 3)),
        bias(Matrix::random(1, s.experts * s.cols, 3)) {
    for (int64_t e = 0; e < s.experts; ++e) {
      weights.push_back(
          Weights::random(s.cols, s.depth, static_cast<uint32_t>(10 + e), kernel.weight));
    }
  }

  // Each expert's matrix is packed separately, as by a loader.
  std::vector<std::byte> packed(const KernelEntry& kernel) const {
    std::vector<std::byte> all;
    for (const Weights& weight : weights) {
      const std::vector<std::byte> own = weight.pack(kernel);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  KernelArgs args(const TensorView& out, std::vector<std::byte>& packed, bool with_bias) const {
    KernelArgs args;
    args.in[0] = x.view();
    args.in[1] = routes.view();
    args.in[2] = weights[0].view();
    args.in[2].rows = sizes.experts * sizes.cols;
    args.in[2].data = packed.data();
    if (with_bias) args.in[3] = bias.view();
    args.out[0] = out;
    args.attrs = ExpertAttrs{.experts = sizes.experts};
    return args;
  }

  Matrix run_kernel(const KernelEntry& kernel, int threads = 1, bool with_bias = true) const {
    Matrix out(routes.view().rows, sizes.cols, DType::kF32, sizes.cols + 5);
    std::vector<std::byte> bytes = packed(kernel);
    run(kernel, args(out.view(), bytes, with_bias), threads);
    return out;
  }
};

}  // namespace lockstep
