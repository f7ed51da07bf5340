// SPDX-License-Identifier: Apache-2.0
// Processes blocks of rows on all threads: reads, quantizes and writes each.
#include "checkpoint/quantize_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/quantized_tensor.h"

namespace lockstep {
namespace {

constexpr int64_t kBlockElements = 1 << 20;

// Rows of a tensor, and the index of its first spec in the writer.
struct Block {
  const TensorInfo* tensor;
  size_t spec;
  std::optional<Quantization> kind;
  Rectangle rows;
};

struct Work {
  std::vector<TensorSpec> specs;
  std::vector<Block> blocks;
  int64_t bytes = 0;  // Bytes to read.
};

void add_blocks(const TensorInfo& tensor, std::optional<Quantization> kind, Work& work) {
  const int64_t step = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, tensor.cols));
  for (int64_t row = 0; row < tensor.rows; row += step) {
    work.blocks.push_back({&tensor,
                           work.specs.size(),
                           kind,
                           {row, std::min(row + step, tensor.rows), 0, tensor.cols}});
  }
  work.bytes += tensor.end - tensor.begin;
}

absl::StatusOr<Work> plan_work(const Checkpoint& from, const QuantizeOptions& options) {
  Work work;
  for (const TensorInfo& tensor : from.tensors()) {
    const auto wanted = options.kinds.find(tensor.name);
    const auto kind = wanted == options.kinds.end() ? std::nullopt : quantization(wanted->second);
    const bool matrices = tensor.shape.size() == 2 || tensor.shape.size() == 3;
    if (kind && (!widens(tensor.dtype) || !matrices)) {
      return failed_precondition(
          "{}: must be a matrix or a stack of them in F32, BF16 or F16 to be quantized, found {} "
          "{}",
          printable(tensor.name), tensor.dtype_name, shape_text(tensor.shape));
    }
    add_blocks(tensor, kind, work);
    std::vector<TensorSpec> specs = {{tensor.name, std::string(tensor.dtype_name), tensor.shape}};
    if (kind) specs = quantized_tensors(tensor.name, *kind, tensor.shape);
    work.specs.insert(work.specs.end(), specs.begin(), specs.end());
  }
  return work;
}

absl::Status copy(const Checkpoint& from, const Block& block, CheckpointWriter& to) {
  const int64_t row_bytes = (block.tensor->end - block.tensor->begin) / block.tensor->rows;
  std::vector<std::byte> bytes(block.rows.rows() * row_bytes);
  RETURN_IF_ERROR(from.read_stored(*block.tensor, block.rows, bytes.data()));
  return to.write(block.spec, block.rows.row_begin * row_bytes, bytes.data(),
                  static_cast<int64_t>(bytes.size()));
}

absl::Status quantize(const Checkpoint& from, const Block& block, CheckpointWriter& to) {
  const Quantization& kind = *block.kind;
  const int64_t rows = block.rows.rows(), cols = block.rows.cols();
  const int64_t groups = group_count(kind, cols);
  std::vector<float> values(rows * cols);
  std::vector<int8_t> codes(rows * cols);
  std::vector<uint16_t> scales(rows * groups), minima(kind.minimum ? rows * groups : 0);
  RETURN_IF_ERROR(from.read(*block.tensor, block.rows, /*transposed=*/false, values.data(), cols));
  RETURN_IF_ERROR(check_finite(block.tensor->name, values.data(), rows * cols));
  quantize_rows(kind, values.data(), cols, rows, cols,
                {codes.data(), scales.data(), minima.data()});
  const std::vector<std::byte> stored = stored_codes(kind, codes.data(), rows, cols);
  const auto bytes = static_cast<int64_t>(stored.size());
  const int64_t first = block.rows.row_begin;
  RETURN_IF_ERROR(to.write(block.spec, first * (bytes / rows), stored.data(), bytes));
  const int64_t scale_bytes = groups * static_cast<int64_t>(sizeof(uint16_t));
  RETURN_IF_ERROR(to.write(block.spec + 1, first * scale_bytes, scales.data(), rows * scale_bytes));
  if (!kind.minimum) return absl::OkStatus();
  return to.write(block.spec + 2, first * scale_bytes, minima.data(), rows * scale_bytes);
}

}  // namespace

absl::StatusOr<int64_t> quantize_checkpoint(const Checkpoint& from,
                                            const std::filesystem::path& folder,
                                            const QuantizeOptions& options, Parallel& parallel) {
  ASSIGN_OR_RETURN(const Work work, plan_work(from, options));
  ASSIGN_OR_RETURN(CheckpointWriter writer,
                   CheckpointWriter::create(folder, work.specs, options.shard_bytes));
  std::atomic<bool> stopped{false};
  std::atomic<int64_t> done{0};
  std::mutex mutex;
  absl::Status first_error;
  for_each(parallel, static_cast<int64_t>(work.blocks.size()), [&](int64_t index, int thread) {
    if (stopped.load()) return;
    const Block& block = work.blocks[index];
    absl::Status status = options.cancelled && options.cancelled()
                              ? absl::CancelledError("quantizing was cancelled")
                          : block.kind ? quantize(from, block, writer)
                                       : copy(from, block, writer);
    if (!status.ok()) {
      const std::lock_guard lock(mutex);
      if (first_error.ok()) first_error = std::move(status);
      stopped = true;
      return;
    }
    const TensorInfo& tensor = *block.tensor;
    done += (tensor.end - tensor.begin) / tensor.rows * block.rows.rows();
    if (thread == 0 && options.progress) options.progress(done, work.bytes);
  });
  RETURN_IF_ERROR(first_error);
  RETURN_IF_ERROR(writer.finish());
  int64_t bytes = 0;
  for (const TensorSpec& spec : work.specs) bytes += stored_bytes(spec);
  return bytes;
}

}  // namespace lockstep
