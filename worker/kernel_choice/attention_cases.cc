// SPDX-License-Identifier: Apache-2.0
#include "worker/kernel_choice/attention_cases.h"

#include <algorithm>
#include <cstring>

#include "base/numbers/float16.h"
#include "base/status.h"
#include "operators/attribute_fields.h"
#include "proto/attributes.h"
#include "worker/kernel_choice/bindings.h"

namespace lockstep {
namespace {

// Lengths of the sequences: at the edges of blocks of 64 keys and of splits of 256.
constexpr int64_t kLengths[] = {1, 17, 64, 65, 256, 257, 520};
constexpr int64_t kRows = std::size(kLengths);
// The two prompts together have as many rows as a step may have, up to kMaxPromptRows. The second
// prompt has few rows; the positions before them are already in the pages.
constexpr int64_t kMaxPromptRows = 8192, kMinPromptRows = 64;
constexpr int64_t kSecondRows = 37, kSecondLength = 530;

}  // namespace

AttentionCases::AttentionCases(const TrialPlace& place, const program::Program& program,
                               const program::Instruction& instruction)
    : place_(place),
      device_(place.device),
      op_(op_of(instruction)),
      x_type_(activation_dtype(program, instruction)),
      has_sinks_(instruction.inputs_size() > (op_ == Op::kRopeAttention ? 4 : 3)),
      attrs_(bind_attributes(instruction.attributes())),
      step_(place.device, {.page_tokens = program.limits().page_tokens()}) {
  pages_.dtype = weight_dtype(program, instruction);
  pages_.page_tokens = program.limits().page_tokens();
  lengths_.assign(std::begin(kLengths), std::end(kLengths));
  // One row of every sequence; one row of each short sequence; one row of the longest sequence.
  cases_ = {{0, kRows}, {0, 5}, {kRows - 1, 1}};
  if (place.max_rows < kMinPromptRows) return;
  const int64_t rows = std::min(place.max_rows, kMaxPromptRows);
  lengths_.push_back(rows - kSecondRows);
  lengths_.push_back(kSecondLength);
  cases_.push_back({kRows, rows, true});
}

// Copies the lists that the attributes point to onto the device.
absl::Status AttentionCases::place_lists() {
  const auto size_of = [](const auto& list) {
    return list.size * static_cast<int64_t>(sizeof(list[0]));
  };
  int64_t bytes = 0;
  visit_lists(attrs_, [&](const auto& list) { bytes += align_memory(size_of(list)); });
  ASSIGN_OR_RETURN(lists_, allocate_memory(device_, bytes, "trials"));
  std::byte* next = lists_.data();
  visit_lists(attrs_, [&](auto& list) {
    device_.copy_in(next, list.data, size_of(list));
    list.data = reinterpret_cast<decltype(list.data)>(next);
    next += align_memory(size_of(list));
  });
  return device_status(device_.synchronize(), device_);
}

// Pages of codes, each with its scales after its codes: numbers of up to 2.
absl::StatusOr<DeviceMemory> AttentionCases::pages_of_codes(int64_t scales) {
  constexpr int64_t kSeed = 7;
  const int64_t page_bytes = pages_.page_bytes, codes = page_bytes - scales * 4;
  const int64_t bytes = pages_.pages * page_bytes;
  std::vector<std::byte> here(static_cast<size_t>(bytes));
  for (int64_t page = 0; page < pages_.pages; ++page) {
    std::byte* const begin = here.data() + page * page_bytes;
    for (int64_t i = 0; i < codes; ++i) {
      const auto code = static_cast<int>(127 * trial_x(kSeed, page * page_bytes + i));
      begin[i] = static_cast<std::byte>(code & 0xff);
    }
    for (int64_t i = 0; i < scales; ++i) {
      const float x = (1 + trial_x(kSeed + 1, page * scales + i)) / 127;
      const float scale = bf16_to_float(float_to_bf16(x));
      std::memcpy(begin + codes + i * 4, &scale, 4);
    }
  }
  ASSIGN_OR_RETURN(DeviceMemory memory, allocate_memory(device_, bytes, "trials"));
  device_.copy_in(memory.data(), here.data(), bytes);
  RETURN_IF_ERROR(device_status(device_.synchronize(), device_));
  return memory;
}

absl::Status AttentionCases::prepare(const KernelEntry& plain) {
  const AttentionAttrs& attrs = attrs_.attention();
  for (const int64_t length : lengths_) {
    std::vector<int32_t>& numbers = page_numbers_.emplace_back();
    for (int64_t at = 0; at < length; at += pages_.page_tokens) {
      numbers.push_back(static_cast<int32_t>(pages_.pages++));
    }
    std::ranges::reverse(numbers);
  }
  pages_.page_bytes = plain.page_bytes({.tokens = pages_.page_tokens,
                                        .kv_heads = attrs.kv_heads,
                                        .k_dim = attrs.head_dim,
                                        .v_dim = attrs.values_in_keys ? 0 : attrs.v_dim,
                                        .dtype = pages_.dtype});
  const int64_t rows = std::ranges::max(cases_, {}, &Case::count).count;
  const auto numbers = [&](int64_t seed, int64_t count, DType dtype) {
    return trial_numbers(place_, seed, 1, count, dtype);
  };
  if (pages_.dtype == DType::kI8) {
    const int64_t scales = pages_.page_tokens * attrs.kv_heads * (attrs.values_in_keys ? 1 : 2);
    ASSIGN_OR_RETURN(page_memory_, pages_of_codes(scales));
  } else {
    const int64_t elements = pages_.pages * pages_.page_bytes / dtype_bytes(pages_.dtype);
    ASSIGN_OR_RETURN(page_memory_, numbers(1, elements, pages_.dtype));
  }
  pages_.data = page_memory_.data();
  ASSIGN_OR_RETURN(q_, numbers(2, rows * attrs.heads * attrs.head_dim, x_type_));
  ASSIGN_OR_RETURN(k_, numbers(3, rows * attrs.kv_heads * attrs.head_dim, DType::kF32));
  ASSIGN_OR_RETURN(v_, numbers(4, rows * attrs.kv_heads * attrs.v_dim, DType::kF32));
  ASSIGN_OR_RETURN(table_, numbers(5, rows * attrs.rotary_dim, DType::kF32));
  ASSIGN_OR_RETURN(sinks_, numbers(6, attrs.heads, DType::kF32));
  return place_lists();
}

KernelArgs AttentionCases::args(int index) const {
  const Case& rows = cases_[static_cast<size_t>(index)];
  const AttentionAttrs& attrs = attrs_.attention();
  const auto rows_of = [&](const DeviceMemory& memory, int64_t cols, DType dtype) {
    const int64_t first = rows.prompts ? 0 : rows.first;
    return TensorView{memory.data() + first * cols * dtype_bytes(dtype), rows.count, cols, cols,
                      dtype};
  };
  KernelArgs args;
  args.in[0] = rows_of(q_, attrs.heads * attrs.head_dim, x_type_);
  args.in[1] = rows_of(k_, attrs.kv_heads * attrs.head_dim, DType::kF32);
  args.in[2] =
      attrs.values_in_keys ? args.in[1] : rows_of(v_, attrs.kv_heads * attrs.v_dim, DType::kF32);
  TensorView* next = args.in + 3;
  if (op_ == Op::kRopeAttention) *next++ = rows_of(table_, attrs.rotary_dim, DType::kF32);
  if (has_sinks_) *next = {sinks_.data(), 1, attrs.heads, attrs.heads, DType::kF32};
  const int64_t out_cols = attrs.heads * attrs.v_dim;
  args.out[0] = {nullptr, rows.count, out_cols, out_cols, DType::kF32};
  args.attrs = attrs_;
  args.state = pages_;
  return args;
}

absl::StatusOr<StepView*> AttentionCases::step(int index) {
  const Case& rows = cases_[static_cast<size_t>(index)];
  std::vector<int32_t> positions, sequence_of_row;
  std::vector<StepSequence> sequences;
  for (auto at = static_cast<size_t>(rows.first); std::ssize(positions) < rows.count; ++at) {
    const int64_t first_row = std::ssize(positions), length = lengths_[at];
    const bool second = rows.prompts && first_row > 0;
    const int64_t own = !rows.prompts ? 1 : second ? kSecondRows : length;
    for (int64_t position = length - own; position < length; ++position) {
      positions.push_back(static_cast<int32_t>(position));
      sequence_of_row.push_back(static_cast<int32_t>(sequences.size()));
    }
    sequences.push_back({.first_row = first_row,
                         .rows = own,
                         .first_position = length - own,
                         .pages = page_numbers_[at].data()});
  }
  const StepView step{.rows = rows.count,
                      .positions = positions.data(),
                      .sequence_of_row = sequence_of_row.data(),
                      .sequences = sequences.data(),
                      .sequence_count = std::ssize(sequences)};
  StepView* const there = step_.take(step);
  if (there == nullptr) return absl::ResourceExhaustedError("no memory for a step");
  return there;
}

absl::StatusOr<std::unique_ptr<AttentionCases>> AttentionCases::make(
    const TrialPlace& place, const program::Program& program,
    const program::Instruction& instruction, const KernelEntry& plain) {
  std::unique_ptr<AttentionCases> cases(new AttentionCases(place, program, instruction));
  RETURN_IF_ERROR(cases->prepare(plain));
  return cases;
}

}  // namespace lockstep
