// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/cuda/candidates.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/threads/thread_pool.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

bool same_candidate(const Candidate& a, const Candidate& b) {
  return a.id == b.id && same_bits(a.logit, b.logit) && same_bits(a.edited, b.edited) &&
         same_bits(a.noisy, b.noisy);
}

bool same_sum(const BlockSum& a, const BlockSum& b) {
  return same_bits(a.max, b.max) && same_bits(a.sum, b.sum);
}

// A copy of a request without logits, with its own memory for the answers.
struct Answers {
  OutputSpec request;
  std::vector<Candidate> top, raw_top;
  std::vector<BlockSum> edited_sums, raw_sums;

  Answers(const OutputSpec& like, int64_t cols)
      : request(like),
        top(static_cast<size_t>(like.top_count)),
        raw_top(static_cast<size_t>(like.raw_top_count)) {
    const auto blocks = static_cast<size_t>((cols + kVocabBlock - 1) / kVocabBlock);
    request.top = top.data();
    request.raw_top = raw_top.data();
    request.logits = nullptr;
    for (auto [sums, place] :
         {std::pair(&edited_sums, &request.edited_sums), std::pair(&raw_sums, &request.raw_sums)}) {
      if (*place == nullptr) continue;
      sums->resize(blocks);
      *place = sums->data();
    }
  }

  bool are_in(const OutputSpec& found) const {
    return same_candidate(found.noisy, request.noisy) && found.top_found == request.top_found &&
           found.raw_top_found == request.raw_top_found &&
           std::equal(found.top, found.top + found.top_found, top.begin(), same_candidate) &&
           std::equal(found.raw_top, found.raw_top + found.raw_top_found, raw_top.begin(),
                      same_candidate) &&
           std::equal(edited_sums.begin(), edited_sums.end(), found.edited_sums, same_sum) &&
           std::equal(raw_sums.begin(), raw_sums.end(), found.raw_sums, same_sum);
  }
};

}  // namespace

bool has_cpu_candidates(const TensorView& logits, const StepView& step) {
  const KernelEntry& kernel =
      *find_kernel(cpu_kernels(), Op::kTopCandidates, DType::kNone, DType::kF32, Isa::kPortable);
  ThreadPool pool(1);
  bool right = true;
  for (int64_t i = 0; i < step.output_count; ++i) {
    Answers wanted(step.outputs[i], logits.cols);
    StepView one{.outputs = &wanted.request, .output_count = 1};
    KernelArgs args{.attrs = TopCandidatesAttrs{}, .step = &one, .parallel = &pool};
    args.in[0] = {logits.row<float>(i), 1, logits.cols, logits.stride, logits.dtype};
    std::vector<uint64_t> scratch(static_cast<size_t>(scratch_bytes(kernel, args, 1) + 7) / 8);
    args.scratch = reinterpret_cast<std::byte*>(scratch.data());
    right &= kernel.run(args) == nullptr && wanted.are_in(step.outputs[i]);
  }
  return right;
}

}  // namespace lockstep
