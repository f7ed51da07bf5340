// SPDX-License-Identifier: Apache-2.0
// All weights are in one piece of memory. A thread reads a block of rows as float32 into its
// buffer, quantizes it there if the weight is quantized, and packs it, so a weight is never in
// memory twice. For a GPU, a thread packs each block into one of two staging buffers, as if the
// block were a separate weight. That buffer is copied to the device while the thread fills the
// other. Packed rows are stored one after the other, so a block packed alone has the bytes that it
// has within its weight.
#include "worker/weights/weights.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "proto/validate/validate.h"
#include "worker/weights/retained_weights.h"
#include "worker/weights/weight_panels.h"

namespace lockstep {
namespace {

using program::Program;
using program::Weight;

constexpr int64_t kBlockFloats = 1 << 20;
// Loading a block of a transposed weight reads all rows of its source, so such blocks are large.
constexpr int64_t kTransposedRows = 512;

int64_t add_saturating(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

std::optional<Quantization> quantized(const Weight& weight) {
  return quantization(dtype_of(weight.dtype()));
}

// The bytes that a thread holds for a block in addition to its float32 values.
int64_t code_bytes(const Weight& weight, int64_t rows) {
  const std::optional<Quantization> kind = quantized(weight);
  if (!kind) return 0;
  return quantized_bytes({8, kind->group, kind->minimum}, rows, weight.cols());
}

int64_t block_rows(const Weight& weight, int64_t matrix_rows) {
  if (weight.cols() == 0) return matrix_rows;
  int64_t rows = kBlockFloats / weight.cols() / kPackRows * kPackRows;
  rows = std::max(rows, has_transposed_piece(weight) ? kTransposedRows : kPackRows);
  return std::min(rows, matrix_rows);
}

// Rows [row_begin, row_end) of one matrix of a weight.
struct Block {
  int weight;
  int64_t matrix;
  int64_t row_begin;
  int64_t row_end;
};

// Retained bytes and their destination, an offset in the memory of all weights.
struct Copy {
  const std::byte* from;
  int64_t to;
  int64_t bytes;
};
constexpr int64_t kCopyBytes = 4 << 20;

// The memory into which a block is packed on its way to a device. After the device has passed the
// mark, the buffer can be filled again.
struct Buffer {
  StagingMemory memory;
  int64_t mark = -1;  // -1: nothing has been copied from it yet.
};

// A thread's memory for a block that is read and then packed. It grows to the largest block.
struct Staging {
  std::vector<float> floats;
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;
  std::vector<uint16_t> minima;
  std::array<Buffer, 2> buffers;  // Empty if blocks are packed in place.
  int next = 0;                   // The buffer to fill next: its last use is longer ago.

  void fit(int64_t rows, int64_t cols, const std::optional<Quantization>& kind) {
    const auto grow = [](auto& buffer, int64_t count) {
      if (static_cast<int64_t>(buffer.size()) < count) buffer.resize(count);
    };
    grow(floats, rows * cols);
    if (!kind) return;
    grow(codes, rows * cols);
    grow(scales, rows * group_count(*kind, cols));
    if (kind->minimum) grow(minima, rows * group_count(*kind, cols));
  }
};

// Loads the weights. All loading threads share one Loader.
class Loader {
 public:
  Loader(const Program& program, const Bindings& bindings, const std::vector<TensorView>& views,
         const WeightSource& source, Device& device, const LoadOptions& options)
      : program_(program),
        bindings_(bindings),
        views_(views),
        source_(source),
        device_(device),
        options_(options) {}

  // Plans which bytes are read, and which are copied.
  void plan(const WeightPlan& plan, const RetainedWeights* weights) {
    std::optional<RetainedPanels> retained;
    if (weights != nullptr) retained.emplace(*weights);
    blocks_.clear();
    missing_.clear();
    copies_.clear();
    total_ = 0;
    for (int i = 0; i < program_.weights_size(); ++i) {
      if (!bindings_.used[i]) continue;
      for_each_panel(program_.weights(i), bindings_.packers[i], [&](const Panel& panel) {
        const std::byte* from = nullptr;
        if (retained) from = retained->find(program_.weights(i), bindings_.packers[i], panel);
        const int64_t to = plan.offsets[i] + panel.offset;
        if (from != nullptr) {
          add_copy({from, to, panel.bytes});
        } else {
          add_panel(i, panel, to);
        }
      });
    }
    for (const Block& block : blocks_) total_ += bytes(block);
  }
  bool reads_any() const { return !blocks_.empty(); }
  int64_t bytes_to_read() const { return total_; }
  int64_t bytes_held() const {
    int64_t bytes = 0;
    for (const Copy& copy : copies_) bytes += copy.bytes;
    return bytes;
  }
  // True if all of these bytes of the weights' memory are retained, or padding.
  bool retained(int64_t begin, int64_t count) const {
    const auto next =
        std::upper_bound(missing_.begin(), missing_.end(), begin,
                         [](int64_t at, const Range& range) { return at < range.end; });
    return next == missing_.end() || next->begin >= begin + count;
  }

  void copy(Parallel& parallel, std::byte* memory) const {
    for_each(parallel, static_cast<int64_t>(copies_.size()), [&](int64_t index) {
      const Copy& copy = copies_[static_cast<size_t>(index)];
      std::memcpy(memory + copy.to, copy.from, static_cast<size_t>(copy.bytes));
      if (options_.progress != nullptr) options_.progress->add_load(copy.bytes);
    });
  }

  absl::Status read(Parallel& parallel, const WeightPlan& plan) {
    const bool reports = options_.progress != nullptr && !options_.for_trial;
    if (reports) options_.progress->bytes_to_load = total_;
    std::vector<Staging> staging(parallel.threads());
    for (Staging& one : staging) {
      for (Buffer& buffer : one.buffers) {
        if (device_.is_host()) continue;
        ASSIGN_OR_RETURN(buffer.memory,
                         allocate_staging(device_, plan.packed_bytes, "copies of weights"));
      }
    }
    for_each(parallel, static_cast<int64_t>(blocks_.size()), [&](int64_t index, int thread) {
      if (stopped_.load(std::memory_order_relaxed)) return;
      if (options_.cancelled != nullptr && options_.cancelled->load()) {
        return stop(absl::CancelledError("loading was cancelled"));
      }
      absl::Status status = load(blocks_[index], staging[thread]);
      if (!status.ok()) return stop(std::move(status));
      if (options_.progress == nullptr) return;
      options_.progress->add_load(bytes(blocks_[index]));
      if (reports) options_.progress->bytes_loaded += bytes(blocks_[index]);
    });
    // Buffers are freed now, so even after an error all queued work must end first.
    if (absl::Status status = device_status(device_.synchronize(), device_); !status.ok()) {
      stop(std::move(status));
    }
    const std::lock_guard lock(mutex_);
    return first_error_;
  }

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  // Extends the last copy if source and destination continue it.
  void add_copy(const Copy& copy) {
    if (!copies_.empty()) {
      Copy& last = copies_.back();
      const bool together = last.to + last.bytes == copy.to && last.from + last.bytes == copy.from;
      if (together && last.bytes + copy.bytes <= kCopyBytes) {
        last.bytes += copy.bytes;
        return;
      }
    }
    copies_.push_back(copy);
  }

  // Extends the last block if the panel continues it and the block is not too large yet.
  void add_panel(int weight, const Panel& panel, int64_t to) {
    const Weight& whole = program_.weights(weight);
    const int64_t rows = whole.rows() / packed_matrices(whole, bindings_.packers[weight]);
    const int64_t step = block_rows(whole, rows);
    const Range bytes{to, to + panel.bytes};
    if (missing_.empty() || missing_.back().end < bytes.begin) missing_.push_back(bytes);
    missing_.back().end = bytes.end;
    Block* last = blocks_.empty() ? nullptr : &blocks_.back();
    if (last != nullptr && last->weight == weight && last->matrix == panel.matrix &&
        last->row_end == panel.row_begin && panel.row_end - last->row_begin <= step) {
      last->row_end = panel.row_end;
    } else {
      blocks_.push_back({weight, panel.matrix, panel.row_begin, panel.row_end});
    }
  }

  int64_t bytes(const Block& block) const {
    const Weight& weight = program_.weights(block.weight);
    return matrix_bytes(dtype_of(weight.dtype()), block.row_end - block.row_begin, weight.cols());
  }

  absl::Status load(const Block& block, Staging& staging) {
    const Weight& weight = program_.weights(block.weight);
    const KernelEntry* packer = bindings_.packers[block.weight];
    const int64_t rows = weight.rows() / packed_matrices(weight, packer);
    auto* data = static_cast<std::byte*>(views_[block.weight].data) +
                 block.matrix * bytes_in_memory(weight, packer, rows);
    if (device_.is_host()) return pack(block, block.row_begin, rows, staging, data);
    Buffer& buffer = staging.buffers[staging.next];
    staging.next = 1 - staging.next;
    if (buffer.mark >= 0) RETURN_IF_ERROR(device_status(device_.wait(buffer.mark), device_));
    std::byte* packed = buffer.memory.data();
    RETURN_IF_ERROR(pack(block, 0, block.row_end - block.row_begin, staging, packed));
    const int64_t begin = bytes_in_memory(weight, packer, block.row_begin);
    const int64_t end = bytes_in_memory(weight, packer, block.row_end);
    const std::lock_guard lock(queue_mutex_);
    device_.use_from_this_thread();
    device_.copy_in(data + begin, packed, end - begin);
    buffer.mark = device_.mark();
    return absl::OkStatus();
  }

  // Reads the block and packs it into `packed`, a matrix of `rows` rows, from row `begin` on.
  absl::Status pack(const Block& block, int64_t begin, int64_t rows, Staging& staging,
                    std::byte* packed) const {
    const Weight& weight = program_.weights(block.weight);
    const KernelEntry* packer = bindings_.packers[block.weight];
    const int64_t above = block.matrix * (weight.rows() / packed_matrices(weight, packer));
    const int64_t first = above + block.row_begin, last = above + block.row_end;
    if (packer == nullptr) {
      return source_.read_rows(weight, first, last,
                               reinterpret_cast<float*>(packed) + begin * weight.cols(),
                               weight.cols());
    }
    const std::optional<Quantization> kind = quantized(weight);
    staging.fit(block.row_end - block.row_begin, weight.cols(), kind);
    float* floats = staging.floats.data();
    const QuantizedRows codes{staging.codes.data(), staging.scales.data(), staging.minima.data()};
    RETURN_IF_ERROR(kind ? source_.read_codes(weight, first, last, floats, codes)
                         : source_.read_rows(weight, first, last, floats, weight.cols()));
    packer->pack({.source = kind ? nullptr : floats,
                  .source_stride = weight.cols(),
                  .quantized = kind ? codes : QuantizedRows{},
                  .rows = rows,
                  .cols = weight.cols(),
                  .row_begin = begin,
                  .row_end = begin + block.row_end - block.row_begin,
                  .packed = packed});
    return absl::OkStatus();
  }

  void stop(absl::Status status) {
    const std::lock_guard lock(mutex_);
    if (first_error_.ok()) first_error_ = std::move(status);
    stopped_ = true;
  }

  const Program& program_;
  const Bindings& bindings_;
  const std::vector<TensorView>& views_;
  const WeightSource& source_;
  Device& device_;
  const LoadOptions& options_;
  std::vector<Block> blocks_;
  std::vector<Range> missing_;  // Bytes of the weights' memory that blocks fill, ascending.
  std::vector<Copy> copies_;
  int64_t total_ = 0;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  absl::Status first_error_;
  std::mutex queue_mutex_;  // One thread queues at a time.
};

}  // namespace

WeightPlan plan_weights(const Program& program, const Bindings& bindings) {
  WeightPlan plan;
  for (int i = 0; i < program.weights_size(); ++i) {
    const Weight& weight = program.weights(i);
    plan.offsets.push_back(plan.bytes);
    if (!bindings.used[i]) continue;
    const KernelEntry* packer = bindings.packers[i];
    const int64_t matrices = packed_matrices(weight, packer), all = weight.rows() / matrices;
    const int64_t bytes = align_memory(matrices * bytes_in_memory(weight, packer, all));
    plan.bytes = add_saturating(plan.bytes, bytes);
    const int64_t rows = block_rows(weight, all);
    plan.packed_bytes = std::max(plan.packed_bytes, bytes_in_memory(weight, packer, rows));
    if (packer == nullptr) continue;
    const int64_t floats = rows * weight.cols() * static_cast<int64_t>(sizeof(float));
    plan.block_bytes = std::max(plan.block_bytes, floats + code_bytes(weight, rows));
  }
  return plan;
}

absl::StatusOr<Weights> Weights::load(const Program& program, const Bindings& bindings,
                                      const WeightPlan& plan, const WeightSource& source,
                                      Device& device, Parallel& parallel,
                                      const LoadOptions& options) {
  for (int i = 0; i < program.weights_size(); ++i) {
    if (bindings.used[i]) RETURN_IF_ERROR(source.check(program.weights(i)));
  }
  Weights weights;
  ASSIGN_OR_RETURN(weights.memory_, allocate_memory(device, plan.bytes, "weights"));
  for (int i = 0; i < program.weights_size(); ++i) {
    const Weight& weight = program.weights(i);
    weights.views_.push_back({.data = weights.memory_.data() + plan.offsets[i],
                              .rows = weight.rows(),
                              .cols = weight.cols(),
                              .stride = weight.cols(),
                              .dtype = dtype_of(weight.dtype())});
  }
  const std::span<std::byte> memory(weights.memory_.data(), static_cast<size_t>(plan.bytes));
  Loader loader(program, bindings, weights.views_, source, device, options);
  loader.plan(plan, options.retained == nullptr ? nullptr : options.retained->get());
  if (options.retained != nullptr && *options.retained != nullptr) {
    loader.copy(parallel, memory.data());
    spdlog::info("weights: reused {} from memory, {} still to load",
                 memory_text(loader.bytes_held()), memory_text(loader.bytes_to_read()));
    options.retained->reset();
    if (!loader.reads_any()) return weights;
  }
  if (options.cache != nullptr && options.cache->exists()) {
    const auto there = [&loader](int64_t begin, int64_t count) {
      return loader.retained(begin, count);
    };
    if (options.cache->load(memory, parallel, options.cancelled, there)) return weights;
    loader.plan(plan, nullptr);  // The failed load() has cleared `memory`.
  }
  RETURN_IF_ERROR(loader.read(parallel, plan));
  if (options.cache != nullptr) options.cache->store(memory, parallel, options.cancelled);
  return weights;
}

void Weights::take(MappedWeight weight) {
  views_[weight.weight] = weight.view;
  files_.push_back(std::move(weight.file));
}

}  // namespace lockstep
