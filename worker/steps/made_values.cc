// SPDX-License-Identifier: Apache-2.0
#include "worker/steps/made_values.h"

#include <cstring>
#include <utility>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "worker/host/memory.h"

namespace lockstep {

absl::Status keep_values(const program::Program& program, int instruction,
                         std::span<const TensorView> views, Device& device, MadeValues& values) {
  if (instruction < values.begin || values.end <= instruction) return absl::OkStatus();
  const auto& outputs = program.instructions(instruction).outputs();
  for (int i = 0; i < outputs.size(); ++i) {
    const TensorView& view = views[static_cast<size_t>(i)];
    if (is_rounded(view.dtype)) continue;  // The program has the exact value, too.
    const int64_t element = dtype_bytes(view.dtype), row_bytes = view.cols * element;
    MadeValues::Made made{.value = outputs[i], .rows = {}};
    made.rows.resize(static_cast<size_t>(view.rows * row_bytes));
    for (int64_t row = 0; row < view.rows && row_bytes > 0; ++row) {
      const std::byte* from =
          static_cast<const std::byte*>(view.data) + row * view.stride * element;
      char* to = made.rows.data() + row * row_bytes;
      if (device.is_host()) {
        std::memcpy(to, from, static_cast<size_t>(row_bytes));
      } else {
        device.copy_out(to, from, row_bytes);
      }
    }
    // Waits before `made` is moved: the copies still write to it.
    RETURN_IF_ERROR(device_status(device.synchronize(), device));
    values.made.push_back(std::move(made));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
