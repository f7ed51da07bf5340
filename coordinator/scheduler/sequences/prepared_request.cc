// SPDX-License-Identifier: Apache-2.0
// Sorts stop ids and sums up a request's memory.
#include "coordinator/scheduler/sequences/prepared_request.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

EngineRequest with_sorted_stops(EngineRequest request) {
  std::vector<int32_t>& ids = request.stop_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ids.shrink_to_fit();
  return request;
}

}  // namespace

PreparedRequest::PreparedRequest(EngineRequest request, int64_t vocab, Prefix prefix)
    : request_(with_sorted_stops(std::move(request))),
      rules_(request_.sampling, request_.prompt_ids, request_.stop_ids, vocab),
      stops_(request_.stop),
      prefix_(prefix) {}

bool PreparedRequest::is_stop_id(int32_t id) const {
  return std::binary_search(request_.stop_ids.begin(), request_.stop_ids.end(), id);
}

int64_t PreparedRequest::bytes() const {
  constexpr size_t kMapNode = 64;  // A node of logit_bias, with the allocator's overhead.
  size_t bytes = sizeof(*this) + request_.id.size();
  bytes += request_.client.size() + request_.cache_salt.size();
  bytes += static_cast<size_t>(request_.answer_bytes);
  bytes += (request_.prompt_ids.size() + request_.stop_ids.size()) * sizeof(int32_t);
  bytes += request_.prompt_embeds.size() * sizeof(float);
  bytes += request_.sampling.logit_bias.size() * kMapNode;
  bytes += (request_.sampling.allowed_ids.size() + request_.logprob_ids.size()) * sizeof(int32_t);
  bytes += rules_.mask().size();
  for (const std::vector<int32_t>& word : request_.sampling.bad_words) {  // Stored twice.
    bytes += 2 * (sizeof(word) + word.size() * sizeof(int32_t));
  }
  constexpr size_t kEdit = 3 * sizeof(float);
  bytes += rules_.rules().size() * (sizeof(LogitRules::Rule) + sizeof(int32_t) + kEdit);
  for (const std::string& stop : request_.stop) {  // Stored twice, and a number for each byte.
    bytes += 2 * sizeof(std::string) + stop.size() * (2 + sizeof(uint32_t));
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace lockstep
