// SPDX-License-Identifier: Apache-2.0
// Times attention over each type of pages. Prompts: by wgmma with each division of the work, and by
// mma.sync. Steps in which each sequence has one row: by the kernel for few rows, and by the kernel
// for prompts. All must have the bits of the mma.sync kernel for prompts.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/bench/cuda/best_time.h"
#include "tools/bench/cuda/operands.h"
#include "tools/bench/cuda/variants.h"
#include "worker/kernels/device_step.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

constexpr double kPeakTflops = 989;  // NVIDIA's figure of an H100 SXM or H200 for bfloat16.

// The last `rows` of `length` positions, of each of `sequences`.
struct Prompt {
  int64_t heads, kv_heads, head_dim;
  int64_t sequences, rows, length;
  int64_t window = 0;
  float cap = 0;
  bool slopes = false;

  std::string text() const {
    return std::to_string(heads) + "/" + std::to_string(kv_heads) + " heads of " +
           std::to_string(head_dim) + ", " + std::to_string(sequences) + " x " +
           std::to_string(rows) + " of " + std::to_string(length) +
           (window > 0 ? ", window " + std::to_string(window) : "") + (cap > 0 ? ", capped" : "") +
           (slopes ? ", with slopes" : "");
  }
  int64_t all_rows() const { return sequences * rows; }
  int64_t pages() const { return (length + kPageTokens - 1) / kPageTokens; }
  int64_t out_cols() const { return heads * head_dim; }
};
constexpr Prompt kPrompts[] = {
    {32, 8, 128, 1, 128, 128},          {32, 8, 128, 1, 512, 512},
    {32, 8, 128, 1, 2048, 2048},        {32, 8, 128, 1, 8192, 8192},
    {32, 8, 128, 1, 1024, 8192},        {32, 8, 128, 16, 256, 256},
    {32, 32, 128, 1, 2048, 2048},       {64, 8, 128, 1, 4096, 4096},
    {32, 8, 64, 1, 4096, 4096},         {32, 8, 128, 1, 4096, 4096, 1024},
    {32, 8, 128, 1, 4096, 4096, 0, 50}, {32, 32, 128, 1, 4096, 4096, 0, 0, true},
};

constexpr Prompt kSingleRows[] = {
    {32, 8, 128, 1, 1, 200},  {32, 8, 128, 1, 1, 4096}, {32, 8, 128, 16, 1, 4096},
    {32, 8, 64, 16, 1, 4096}, {8, 4, 256, 16, 1, 4096},
};

class PromptOperands {
 public:
  PromptOperands(Device& device, const KernelEntry& kernel, const Prompt& prompt)
      : device_(device),
        prompt_(prompt),
        pages_type_(kernel.weight),
        page_bytes_(kernel.page_bytes(
            {kPageTokens, prompt.kv_heads, prompt.head_dim, prompt.head_dim, pages_type_})),
        q_(device, prompt.all_rows() * prompt.out_cols() * 2),
        kv_(device, prompt.all_rows() * prompt.kv_heads * prompt.head_dim * 4),
        pages_(device, prompt.sequences * prompt.pages() * page_bytes_),
        map_(device, prompt.heads * 4),
        slopes_(device, prompt.heads * 4),
        out_(device, (prompt.all_rows() + kGuardRows) * prompt.out_cols() * 2),
        step_(device, {.page_tokens = kPageTokens}) {}

  bool fill(const KernelEntry& kernel) {
    scratch_ = DeviceMemory(device_, scratch_bytes(kernel, args(), 1));
    for (const DeviceMemory* memory : {&q_, &kv_, &pages_, &map_, &slopes_, &out_}) {
      if (memory->data() == nullptr) return false;
    }
    if (scratch_.data() == nullptr) return false;
    if (!fill_with_pattern(device_, std::to_array({&q_, &kv_, &pages_}))) return false;
    std::vector<int32_t> map;
    std::vector<float> slopes;
    for (int64_t h = 0; h < prompt_.heads; ++h) {
      map.push_back(static_cast<int32_t>(h * prompt_.kv_heads / prompt_.heads));
      slopes.push_back(1 / static_cast<float>(8 + h));
    }
    device_.copy_in(map_.data(), map.data(), prompt_.heads * 4);
    device_.copy_in(slopes_.data(), slopes.data(), prompt_.heads * 4);
    return take_step() && device_.synchronize() == nullptr;
  }

  KernelArgs args() const {
    const int64_t rows = prompt_.all_rows(), kv_cols = prompt_.kv_heads * prompt_.head_dim;
    const int64_t cols = prompt_.out_cols();
    KernelArgs args;
    args.in[0] = {q_.data(), rows, cols, cols, DType::kBF16};
    args.in[1] = args.in[2] = {kv_.data(), rows, kv_cols, kv_cols, DType::kF32};
    args.out[0] = {out_.data(), rows, cols, cols, DType::kBF16};
    args.attrs = AttentionAttrs{
        .heads = prompt_.heads,
        .kv_heads = prompt_.kv_heads,
        .head_dim = prompt_.head_dim,
        .v_dim = prompt_.head_dim,
        .scale = 8.0f,
        .window = prompt_.window,
        .cap = prompt_.cap,
        .slopes = {reinterpret_cast<const float*>(slopes_.data()),
                   prompt_.slopes ? prompt_.heads : 0},
        .kv_head_of = {reinterpret_cast<const int32_t*>(map_.data()), prompt_.heads}};
    args.attrs.attention().read_only = true;  // Only attention is timed.
    args.state = {pages_.data(), page_bytes_, prompt_.sequences * prompt_.pages(), kPageTokens,
                  pages_type_};
    args.step = view_;
    args.scratch = scratch_.data();
    args.queue = device_.queue();
    return args;
  }
  const StepView& step() const { return host_view_; }

  // The bits of the last rows and of the guard; empty if the kernel failed or wrote the guard.
  std::vector<uint16_t> result_of(KernelFn kernel) {
    device_.clear(out_.data(), out_.bytes());
    if (kernel(args()) != nullptr || device_.synchronize() != nullptr) return {};
    const int64_t cols = prompt_.out_cols();
    const int64_t first = std::max<int64_t>(0, prompt_.all_rows() - kCheckedRows);
    std::vector<uint16_t> bits(
        static_cast<size_t>((prompt_.all_rows() - first + kGuardRows) * cols));
    device_.copy_out(bits.data(), out_.data() + first * cols * 2,
                     static_cast<int64_t>(bits.size() * 2));
    if (device_.synchronize() != nullptr) return {};
    const bool clean = std::all_of(bits.end() - kGuardRows * cols, bits.end(),
                                   [](uint16_t half) { return half == 0; });
    return clean ? bits : std::vector<uint16_t>();
  }

 private:
  bool take_step() {
    // Pages are in descending order.
    auto next = static_cast<int32_t>(prompt_.sequences * prompt_.pages());
    numbers_.resize(static_cast<size_t>(next));
    for (int32_t& number : numbers_) number = --next;
    for (int64_t s = 0; s < prompt_.sequences; ++s) {
      sequences_.push_back({.first_row = s * prompt_.rows,
                            .rows = prompt_.rows,
                            .first_position = prompt_.length - prompt_.rows,
                            .pages = numbers_.data() + s * prompt_.pages()});
      for (int64_t r = 0; r < prompt_.rows; ++r) {
        positions_.push_back(static_cast<int32_t>(prompt_.length - prompt_.rows + r));
        sequence_of_row_.push_back(static_cast<int32_t>(s));
      }
    }
    host_view_ = {.rows = prompt_.all_rows(),
                  .positions = positions_.data(),
                  .sequence_of_row = sequence_of_row_.data(),
                  .sequences = sequences_.data(),
                  .sequence_count = prompt_.sequences};
    view_ = step_.take(host_view_);
    return view_ != nullptr;
  }

  Device& device_;
  const Prompt& prompt_;
  const DType pages_type_;
  const int64_t page_bytes_;
  const DeviceMemory q_, kv_, pages_, map_, slopes_, out_;
  DeviceMemory scratch_;
  DeviceStep step_;
  std::vector<int32_t> numbers_, positions_, sequence_of_row_;
  std::vector<StepSequence> sequences_;
  StepView host_view_;
  StepView* view_ = nullptr;
};

// Prints a variant's line. False: it has other bits, or failed.
bool report(Device& device, const KernelEntry& mma, PromptOperands& operands, const Prompt& prompt,
            const AttentionVariant& variant, bool same) {
  KernelArgs counted = operands.args();
  StepView step = operands.step();
  counted.step = &step;
  const KernelCost cost = kernel_cost(mma, counted);
  const auto us = best_time(device, [&](int64_t) { return variant.run(operands.args()); });
  const double tflops = us ? static_cast<double>(cost.flops) / *us / 1e6 : 0;
  const double gb = us ? static_cast<double>(cost.bytes) / *us / 1e3 : 0;
  std::printf(
      "{\"variant\": \"attention_%s\", \"pages\": \"%s\", \"shape\": \"%s\", \"us\": %.2f, "
      "\"gb_s\": %.1f, \"tflop_s\": %.1f, \"of_peak\": %.3f, \"same_bits\": %s}\n",
      variant.name, dtype_short_name(mma.weight), prompt.text().c_str(), us.value_or(0), gb, tflops,
      tflops / kPeakTflops, same ? "true" : "false");
  std::fflush(stdout);  // If the process is killed, earlier results are kept.
  return same && us.has_value();
}

// Prints the lines of the mma.sync kernel and of the variants, for each prompt. False: a variant
// has other bits, or failed.
bool compare(Device& device, const KernelEntry& mma, std::span<const Prompt> prompts,
             std::span<const AttentionVariant> variants) {
  bool right = true;
  for (const Prompt& prompt : prompts) {
    PromptOperands operands(device, mma, prompt);
    if (!operands.fill(mma)) {
      std::fprintf(stderr, "cuda_bench: the GPU has too little memory\n");
      return false;
    }
    const std::vector<uint16_t> wanted = operands.result_of(mma.run);
    right &= report(device, mma, operands, prompt, {"mma", mma.run}, !wanted.empty());
    for (const AttentionVariant& variant : variants) {
      const bool same = !wanted.empty() && operands.result_of(variant.run) == wanted;
      right &= report(device, mma, operands, prompt, variant, same);
    }
  }
  return right;
}

}  // namespace

bool run_attention_variants(Device& device) {
  bool right = true;
  for (const std::string type : {"bf16", "i8"}) {
    const KernelEntry* mma = kernel_named(device, "attention_" + type + "_cuda");
    const KernelEntry* rows = kernel_named(device, "attention_rows_" + type + "_cuda");
    if (mma == nullptr || rows == nullptr) return true;  // A build without CUDA.
    const AttentionVariant few_rows[] = {{"rows", rows->run}};
    right &= compare(
        device, *mma, kPrompts,
        type == "bf16" ? attention_variants_of(device) : std::span<const AttentionVariant>());
    right &= compare(device, *mma, kSingleRows, few_rows);
  }
  return right;
}

}  // namespace lockstep
