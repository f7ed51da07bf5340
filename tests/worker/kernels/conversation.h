// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of whole sequences, which are fed to an attention kernel step by step.
#pragma once

#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {

struct Shape {
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  int64_t v_dim = 0;            // 0: head_dim.
  bool values_in_keys = false;  // Values are the keys' first v_dim columns.
  int64_t window = 0;
  int64_t chunk = 0;
  float cap = 0;
  bool slopes = false;                   // One per head: steep and flat ones.
  bool sinks = false;                    // One per head: small and large ones.
  std::vector<int64_t> lengths = {150};  // The length of every sequence.
  int64_t prefix_rows = 0;               // The same for all; a shorter sequence is all prefix.
};

struct Schedule {
  int64_t chunk = 1000;  // The max rows of a sequence in a step; a prefix is always in one step.
  int64_t page_tokens = 16;
  int threads = 1;
  bool shuffle = true;
  bool read_again = false;  // Each step is computed again, from the pages alone.
  int64_t longest = 0;      // StepView::longest is at least this.
  int64_t last_alone = 0;   // Each sequence's last rows: one per step.
};

// With values_in_keys, v() has copies of the keys' columns.
class Conversation {
 public:
  explicit Conversation(const Shape& shape, float key_size = 1);
  void set_kv_head_of(std::vector<int32_t> map) { kv_head_of_ = std::move(map); }
  Matrix& q(size_t sequence) { return q_[sequence]; }
  Matrix& k(size_t sequence) { return k_[sequence]; }
  Matrix& v(size_t sequence) { return v_[sequence]; }
  // Replaces every key and value by the numbers that a GPU's int8 pages have instead: codes times a
  // scale that bfloat16 can represent, rounded to bfloat16.
  void round_to_codes();
  // Replaces every value by the effect that an error of its weight has: the value's magnitude, or
  // with int8 the largest magnitude of its vector.
  void take_magnitudes(DType dtype);

  // The outputs of every sequence, [length, heads * v_dim]. kernel.run may be the reference.
  std::vector<Matrix> run_all(const KernelEntry& kernel, const Schedule& schedule);

 private:
  // Makes pages in random order, filled with NaN.
  void start(const KernelEntry& kernel, const Schedule& schedule);
  // The attributes of a step of this shape, without its rows.
  AttentionAttrs attrs() const;
  void copy_values_of_keys(size_t sequence);
  int64_t v_dim() const { return shape_.v_dim == 0 ? shape_.head_dim : shape_.v_dim; }
  void step(const KernelEntry& kernel, const Schedule& schedule, std::vector<int64_t>& done,
            std::vector<Matrix>& outputs);

  Shape shape_;
  std::vector<Matrix> q_, k_, v_;
  std::vector<int32_t> kv_head_of_;
  std::vector<float> slopes_;
  Matrix sinks_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<std::byte> memory_;
  int64_t page_bytes_ = 0;
};

}  // namespace lockstep
