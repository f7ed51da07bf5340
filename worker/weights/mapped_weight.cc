// SPDX-License-Identifier: Apache-2.0
#include "worker/weights/mapped_weight.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

absl::StatusOr<MappedWeight> map_weight(const program::Weight& weight, int index,
                                        const WeightSource& source) {
  RETURN_IF_ERROR(source.check(weight));
  ASSIGN_OR_RETURN(const StoredRows rows, source.stored_rows(weight));
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::map(*rows.file));
  file.expect_random_reads();
  auto* data = const_cast<std::byte*>(file.bytes().data()) + rows.offset;
  return MappedWeight{.weight = index,
                      .view = {.data = data,
                               .rows = weight.rows(),
                               .cols = weight.cols(),
                               .stride = rows.stride,
                               .dtype = dtype_of(weight.dtype())},
                      .file = std::move(file)};
}

}  // namespace

std::vector<MappedWeight> map_embeddings(const program::Program& program,
                                         const WeightSource& source, Bindings* bindings) {
  std::vector<MappedWeight> mapped;
  for (int i = 0; i < program.weights_size(); ++i) {
    const program::Weight& weight = program.weights(i);
    const bool wanted = weight.role() == program::EMBEDDING && bindings->used[i];
    if (!wanted || weight.rows() == 0) continue;
    absl::StatusOr<MappedWeight> one = map_weight(weight, i, source);
    if (one.ok()) {
      bindings->used[i] = false;
      mapped.push_back(std::move(one).value());
    } else {
      spdlog::warn("--embedding file: {}: {}; it is kept in memory", weight.name(),
                   message_of(one.status()));
    }
  }
  return mapped;
}

}  // namespace lockstep
