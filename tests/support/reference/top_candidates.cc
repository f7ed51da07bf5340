// SPDX-License-Identifier: Apache-2.0
// The reference of top_candidates sorts all candidates.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/numbers/math.h"
#include "tests/support/reference/reference.h"

namespace lockstep::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Scored : Candidate {
  bool allowed;
};

std::vector<Scored> score(const KernelArgs& args, int64_t row) {
  const OutputSpec& request = args.step->outputs[row];
  std::vector<Scored> all;
  for (int64_t i = 0; i < args.in[0].cols; ++i) {
    Scored c;
    c.id = static_cast<int32_t>(args.attrs.top_candidates().vocab_begin + i);
    c.logit = element(args.in[0], row, i);
    c.edited = c.logit;
    for (int64_t e = 0; e < request.edit_count; ++e) {
      const LogitEdit& edit = request.edits[e];
      if (edit.id != c.id) continue;
      c.edited = c.edited > 0 ? c.edited / edit.repetition : c.edited * edit.repetition;
      c.edited += edit.add;
    }
    if (request.temperature > 0) c.edited /= request.temperature;
    c.allowed = request.mask == nullptr || (request.mask[c.id / 64] >> (c.id % 64) & 1) != 0;
    if (!c.allowed) c.edited = -kInfinity;
    c.noisy = c.edited;
    if (request.temperature > 0) c.noisy += gumbel_noise(request.seed, request.position, c.id);
    all.push_back(c);
  }
  return all;
}

// Sorts best first; NaN comes after all numbers.
void sort_by(std::vector<Scored>& all, float Candidate::*value) {
  const auto key = [&](const Scored& c) {
    const float x = c.*value;
    return std::isnan(x) ? std::pair(1, 0.0f) : std::pair(0, -x);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Scored& a, const Scored& b) { return key(a) < key(b); });
}

int64_t copy_best(const std::vector<Scored>& sorted, Candidate* to, int64_t count) {
  const auto found = std::min<int64_t>(count, static_cast<int64_t>(sorted.size()));
  std::copy_n(sorted.begin(), found, to);
  return found;
}

void sum_blocks(const std::vector<Scored>& all, float Candidate::*value, BlockSum* sums) {
  for (size_t begin = 0; begin < all.size(); begin += kVocabBlock) {
    const size_t end = std::min(all.size(), begin + kVocabBlock);
    float highest = -kInfinity;
    for (size_t i = begin; i < end; ++i) highest = std::fmax(highest, all[i].*value);
    double sum = 0;
    for (size_t i = begin; i < end && highest > -kInfinity; ++i) {
      const double x = all[i].*value;
      if (!std::isnan(x)) sum += std::exp(x - highest);
    }
    sums[begin / kVocabBlock] = {highest, static_cast<float>(sum)};
  }
}

}  // namespace

const char* top_candidates(const KernelArgs& args) {
  for (int64_t row = 0; row < args.step->output_count; ++row) {
    OutputSpec& request = args.step->outputs[row];
    std::vector<Scored> all = score(args, row);
    if (request.edited_sums) sum_blocks(all, &Candidate::edited, request.edited_sums);
    if (request.raw_sums) sum_blocks(all, &Candidate::logit, request.raw_sums);
    for (size_t i = 0; request.logits && i < all.size(); ++i) request.logits[i] = all[i].logit;
    std::vector<Scored> raw = all;
    sort_by(raw, &Candidate::logit);
    request.raw_top_found = copy_best(raw, request.raw_top, request.raw_top_count);
    std::erase_if(all, [](const Scored& c) { return !c.allowed; });
    sort_by(all, &Candidate::edited);
    request.top_found = copy_best(all, request.top, request.top_count);
    std::stable_sort(all.begin(), all.end(),
                     [](const Scored& a, const Scored& b) { return a.id < b.id; });
    sort_by(all, &Candidate::noisy);
    request.noisy = request.want_noisy && !all.empty() ? Candidate(all[0]) : Candidate{};
  }
  return nullptr;
}

}  // namespace lockstep::reference
