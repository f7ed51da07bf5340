// SPDX-License-Identifier: Apache-2.0
#include "worker/kernel_choice/attention_trial.h"

#include <algorithm>
#include <cstring>

#include "base/numbers/float16.h"
#include "base/status.h"
#include "operators/attribute_fields.h"
#include "proto/attributes.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

// Lengths of the sequences: at the edges of blocks of 64 keys and of splits of 256.
constexpr int64_t kLengths[] = {1, 17, 64, 65, 256, 257, 520};
constexpr int64_t kRows = std::size(kLengths);
// The two prompts together have as many rows as a step may have, up to kMaxPromptRows. The second
// prompt has few rows; the positions before them are already in the pages.
constexpr int64_t kMaxPromptRows = 8192, kMinPromptRows = 64;
constexpr int64_t kSecondRows = 37, kSecondLength = 530;
constexpr int64_t kTimedNs = 20'000'000;
constexpr int64_t kMaxTimed = 50;

}  // namespace

// One row of every sequence; one row of each short sequence; one row of the longest sequence; the
// two prompts.
std::vector<AttentionTrials::Case> AttentionTrials::cases() const {
  std::vector<Case> cases = {{0, kRows}, {0, 5}, {kRows - 1, 1}};
  if (prompt_rows_ > 0) cases.push_back({kRows, prompt_rows_, true});
  return cases;
}

int64_t AttentionTrials::max_rows() const { return std::max(kRows, prompt_rows_); }

AttentionTrials::AttentionTrials(const TrialPlace& place, const program::Program& program,
                                 const program::Instruction& instruction)
    : place_(place),
      device_(place.device),
      op_(op_of(instruction)),
      x_type_(activation_dtype(program, instruction)),
      has_sinks_(instruction.inputs_size() > (op_ == Op::kRopeAttention ? 4 : 3)),
      prompt_rows_(place.max_rows < kMinPromptRows ? 0 : std::min(place.max_rows, kMaxPromptRows)),
      attrs_(bind_attributes(instruction.attributes())),
      step_(place.device, {.page_tokens = program.limits().page_tokens()}) {
  pages_.dtype = weight_dtype(program, instruction);
  pages_.page_tokens = program.limits().page_tokens();
  lengths_.assign(std::begin(kLengths), std::end(kLengths));
  if (prompt_rows_ > 0) {
    lengths_.push_back(prompt_rows_ - kSecondRows);
    lengths_.push_back(kSecondLength);
  }
}

absl::StatusOr<DeviceMemory> AttentionTrials::on_device(const std::vector<std::byte>& bytes) {
  const int64_t count = std::ssize(bytes);
  ASSIGN_OR_RETURN(DeviceMemory memory, allocate_memory(device_, count, "trials"));
  device_.copy_in(memory.data(), bytes.data(), count);
  RETURN_IF_ERROR(device_status(device_.synchronize(), device_));
  return memory;
}

absl::StatusOr<DeviceMemory> AttentionTrials::filled(int64_t elements, DType dtype, int64_t seed) {
  std::vector<std::byte> here(static_cast<size_t>(elements * dtype_bytes(dtype)));
  for (int64_t i = 0; i < elements; ++i) {
    const float x = trial_x(seed, i);
    const uint16_t half = float_to_bf16(x);
    std::memcpy(here.data() + i * dtype_bytes(dtype),
                dtype == DType::kBF16 ? static_cast<const void*>(&half) : &x,
                static_cast<size_t>(dtype_bytes(dtype)));
  }
  return on_device(here);
}

// Pages of codes, each with its scales after its codes: numbers of up to 2.
absl::StatusOr<DeviceMemory> AttentionTrials::filled_with_codes(int64_t scales, int64_t seed) {
  const int64_t page_bytes = pages_.page_bytes, codes = page_bytes - scales * 4;
  std::vector<std::byte> here(static_cast<size_t>(pages_.pages * page_bytes));
  for (int64_t page = 0; page < pages_.pages; ++page) {
    std::byte* const begin = here.data() + page * page_bytes;
    for (int64_t i = 0; i < codes; ++i) {
      begin[i] = static_cast<std::byte>(
          static_cast<int>(127 * trial_x(seed, page * page_bytes + i)) & 0xff);
    }
    for (int64_t i = 0; i < scales; ++i) {
      const float x = (1 + trial_x(seed + 1, page * scales + i)) / 127;
      const float scale = bf16_to_float(float_to_bf16(x));
      std::memcpy(begin + codes + i * 4, &scale, 4);
    }
  }
  return on_device(here);
}

// Copies the lists that the attributes point to onto the device.
absl::Status AttentionTrials::place_lists() {
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

absl::Status AttentionTrials::prepare(const KernelEntry& plain) {
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
  if (pages_.dtype == DType::kI8) {
    const int64_t scales = pages_.page_tokens * attrs.kv_heads * (attrs.values_in_keys ? 1 : 2);
    ASSIGN_OR_RETURN(page_memory_, filled_with_codes(scales, 7));
  } else {
    const int64_t elements = pages_.pages * pages_.page_bytes / dtype_bytes(pages_.dtype);
    ASSIGN_OR_RETURN(page_memory_, filled(elements, pages_.dtype, 1));
  }
  pages_.data = page_memory_.data();
  ASSIGN_OR_RETURN(q_, filled(max_rows() * attrs.heads * attrs.head_dim, x_type_, 2));
  ASSIGN_OR_RETURN(k_, filled(max_rows() * attrs.kv_heads * attrs.head_dim, DType::kF32, 3));
  ASSIGN_OR_RETURN(v_, filled(max_rows() * attrs.kv_heads * attrs.v_dim, DType::kF32, 4));
  ASSIGN_OR_RETURN(table_, filled(max_rows() * attrs.rotary_dim, DType::kF32, 5));
  ASSIGN_OR_RETURN(sinks_, filled(attrs.heads, DType::kF32, 6));
  ASSIGN_OR_RETURN(out_,
                   allocate_memory(device_, max_rows() * attrs.heads * attrs.v_dim * 4, "trials"));
  RETURN_IF_ERROR(place_lists());
  for (const Case& rows : cases()) {
    Trial unused;
    RETURN_IF_ERROR(compute(plain, rows, &wanted_.emplace_back(), &unused));
    if (!unused.problem.empty()) return failed_precondition("{}: {}", plain.name, unused.problem);
  }
  return absl::OkStatus();
}

KernelArgs AttentionTrials::args(const Case& rows) const {
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
  args.out[0] = rows_of(out_, attrs.heads * attrs.v_dim, DType::kF32);
  args.attrs = attrs_;
  args.state = pages_;
  args.parallel = &place_.parallel;
  args.scratch = scratch_.data();
  args.queue = device_.queue();
  return args;
}

absl::StatusOr<const char*> AttentionTrials::call(const KernelEntry& kernel, const Case& rows,
                                                  int times) {
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
  KernelArgs now = args(rows);
  now.step = step_.take(step);
  if (now.step == nullptr) return absl::ResourceExhaustedError("no memory for a step");
  const char* refused = nullptr;
  for (int i = 0; refused == nullptr && i < times; ++i) refused = kernel.run(now);
  RETURN_IF_ERROR(device_status(device_.synchronize(), device_));
  if (place_.progress != nullptr) place_.progress->add_load(1);
  return refused;
}

// If the kernel cannot be queued, the trial gets the reason.
absl::Status AttentionTrials::compute(const KernelEntry& kernel, const Case& rows, Bits* found,
                                      Trial* trial) {
  const KernelArgs largest = args(std::ranges::max(cases(), {}, &Case::count));
  const int64_t scratch = scratch_bytes(kernel, largest, place_.parallel.threads());
  if (scratch > scratch_.bytes()) {
    ASSIGN_OR_RETURN(scratch_, allocate_memory(device_, scratch, "trials"));
  }
  device_.clear(out_.data(), out_.bytes());  // So that unwritten columns are wrong.
  ASSIGN_OR_RETURN(const char* const refused, call(kernel, rows, 1));
  if (refused != nullptr) {
    trial->verdict = Verdict::kRefused;
    trial->problem = fmt::format("it cannot run on {} rows: {}", rows.count, refused);
    return absl::OkStatus();
  }
  found->resize(static_cast<size_t>(out_.bytes() / 4));
  device_.copy_out(found->data(), out_.data(), out_.bytes());
  return device_status(device_.synchronize(), device_);
}

absl::Status AttentionTrials::time(const KernelEntry& kernel, const Case& rows, TriedRows* tried) {
  int64_t begin = place_.now_ns();
  RETURN_IF_ERROR(call(kernel, rows, 1).status());
  tried->ns = std::max<int64_t>(1, place_.now_ns() - begin);
  const int times = static_cast<int>(std::min(kMaxTimed, kTimedNs / tried->ns));
  if (times < 2) return absl::OkStatus();
  begin = place_.now_ns();
  RETURN_IF_ERROR(call(kernel, rows, times).status());
  tried->ns = std::max<int64_t>(1, (place_.now_ns() - begin) / times);
  return absl::OkStatus();
}

absl::Status AttentionTrials::try_case(const KernelEntry& kernel, const Case& rows,
                                       const Bits& wanted, Trial* trial) {
  Bits found;
  RETURN_IF_ERROR(compute(kernel, rows, &found, trial));
  if (trial->verdict == Verdict::kRefused) return absl::OkStatus();
  const int64_t cols = args(rows).out[0].cols;
  TriedRows tried{.rows = rows.count, .cols = cols};
  const auto differs = std::ranges::mismatch(found, wanted).in1 - found.begin();
  if (differs < static_cast<int64_t>(found.size())) {
    tried.error = 1;
    trial->verdict = Verdict::kRefused;
    trial->problem = fmt::format("with {} rows, row {}, column {} has other bits", rows.count,
                                 differs / cols - (rows.prompts ? 0 : rows.first), differs % cols);
  } else {
    RETURN_IF_ERROR(time(kernel, rows, &tried));
  }
  trial->rows.push_back(tried);
  return absl::OkStatus();
}

absl::Status AttentionTrials::run(const KernelEntry& kernel, Trial* trial) {
  trial->rows.clear();
  for (size_t i = 0; i < cases().size(); ++i) {
    const absl::Status status = try_case(kernel, cases()[i], wanted_[i], trial);
    if (absl::IsInternal(status)) {
      trial->verdict = Verdict::kRefused;
      trial->problem = fmt::format("on {} rows: {}", cases()[i].count, message_of(status));
    }
    RETURN_IF_ERROR(status);
    if (trial->verdict == Verdict::kRefused) return absl::OkStatus();
  }
  trial->verdict = Verdict::kProven;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<AttentionTrials>> AttentionTrials::make(
    const TrialPlace& place, const program::Program& program,
    const program::Instruction& instruction, const KernelEntry& plain) {
  std::unique_ptr<AttentionTrials> trials(new AttentionTrials(place, program, instruction));
  RETURN_IF_ERROR(trials->prepare(plain));
  return trials;
}

}  // namespace lockstep
