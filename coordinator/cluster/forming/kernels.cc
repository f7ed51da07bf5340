// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/forming/kernels.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "base/numbers/crc32c.h"
#include "base/status.h"

namespace lockstep {
namespace {

std::vector<std::string> names_in(const std::string& text) { return absl::StrSplit(text, ','); }

}  // namespace

absl::StatusOr<Agreement> agree_on_kernels(const std::vector<cluster::WorkerMessage>& readies) {
  Agreement agreement;
  const cluster::Ready& first = readies.front().ready();
  for (size_t rank = 1; rank < readies.size(); ++rank) {
    const cluster::Ready& ready = readies[rank].ready();
    if (ready.kernels_size() == first.kernels_size()) continue;
    return failed_precondition("rank {}: must have kernels for {} linears, as rank 0 has, found {}",
                               rank, first.kernels_size(), ready.kernels_size());
  }
  for (int linear = 0; linear < first.kernels_size(); ++linear) {
    std::vector<std::string> common = names_in(first.kernels(linear));
    for (size_t rank = 1; rank < readies.size(); ++rank) {
      const std::vector<std::string> other = names_in(readies[rank].ready().kernels(linear));
      agreement.unanimous &= other.front() == names_in(first.kernels(linear)).front();
      std::erase_if(common, [&](const std::string& kernel) {
        return std::ranges::find(other, kernel) == other.end();
      });
      if (!common.empty()) continue;
      return failed_precondition(
          "linear {}: ranks 0 and {} have no proven kernel in common: {}; {}", linear, rank,
          printable(first.kernels(linear)), printable(readies[rank].ready().kernels(linear)));
    }
    agreement.kernels.push_back(common.front());
  }
  return agreement;
}

std::string digest_of(const std::vector<std::string>& kernels) {
  if (kernels.empty()) return "";
  uint32_t sum = 0;
  for (const std::string& kernel : kernels) sum = crc32c(kernel.c_str(), kernel.size() + 1, sum);
  return fmt::format("{:08x}", sum);
}

}  // namespace lockstep
