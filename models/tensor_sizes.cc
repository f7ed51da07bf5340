// SPDX-License-Identifier: Apache-2.0
#include "models/tensor_sizes.h"

#include <string>

#include "checkpoint/checkpoint.h"

namespace lockstep {

void read_tensor_sizes(const std::filesystem::path& folder, const Family& family, Json& json) {
  absl::StatusOr<Checkpoint> checkpoint = absl::NotFoundError("not opened");
  for (const TensorSize& size : family.sizes) {
    if (size.key.empty() || !json.value(std::string(size.key), Json()).is_null()) continue;
    if (absl::IsNotFound(checkpoint.status())) checkpoint = Checkpoint::open(folder);
    if (!checkpoint.ok()) return;
    const TensorInfo* tensor = checkpoint->find(size.tensor);
    if (tensor == nullptr || size.dimension >= tensor->shape.size()) continue;
    json[std::string(size.key)] = tensor->shape[size.dimension];
  }
}

}  // namespace lockstep
