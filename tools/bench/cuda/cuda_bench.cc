// SPDX-License-Identifier: Apache-2.0
// Times memory copies, then the kernels of linears, attention, norms, gates, casts and candidates
// over shapes of an 8-billion-parameter Llama. Prints one JSON object per line, with the
// microseconds, GB/s and GFLOP/s of one copy or kernel. A figure is the median of several runs of
// many consecutive calls. A kernel's calls are replayed as a CUDA graph: queueing a call takes
// longer than a small kernel. Weights exceed the GPU's cache. q8 and q4 are the quantized types
// that are measured.
//   cuda_bench            everything; exit code 1 if a kernel that is checked has wrong bits
//   cuda_bench --variants the variants of kernels instead; exit code 1 if one has wrong bits
//   cuda_bench --devices  the usable GPUs; exit code 2 and the reason if there are none
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "operators/schema/schema.h"
#include "tools/bench/cuda/candidates.h"
#include "tools/bench/cuda/operands.h"
#include "tools/bench/cuda/variants.h"
#include "worker/kernels/device.h"
#include "worker/kernels/device_step.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

constexpr int64_t kHidden = 4096, kFfn = 14336, kVocab = 128256;
constexpr int64_t kHeads = 32, kKvHeads = 8, kHeadDim = 128, kContext = 4096;
constexpr int64_t kCycledBytes = int64_t{256} << 20;
constexpr int64_t kPatternBytes = int64_t{4} << 20;
constexpr int kRuns = 5;
constexpr double kRunMicroseconds = 10000;
constexpr double kMaxCaptured = 256;  // The max calls in a graph; a weight has fewer copies.

class Bench {
 public:
  explicit Bench(Device& device) : device_(device), pattern_(device, kPatternBytes) {
    if (pattern_.data() == nullptr) fail("the system has too little locked memory");
    write_pattern({reinterpret_cast<uint16_t*>(pattern_.data()), kPatternBytes / 2});
  }

  // Fills the matrix with the pattern.
  TensorView matrix(int64_t rows, int64_t cols, DType dtype) {
    return {filled(rows * cols * dtype_bytes(dtype)), rows, cols, cols, dtype};
  }
  std::byte* filled(int64_t bytes) {
    std::byte* data = own(bytes);
    for (int64_t at = 0; at < bytes; at += kPatternBytes) {
      device_.copy_in(data + at, pattern_.data(), std::min(kPatternBytes, bytes - at));
    }
    finish();
    return data;
  }
  std::byte* own(int64_t bytes) {
    memory_.emplace_back(device_, bytes);
    if (memory_.back().data() == nullptr) fail("the GPU has too little memory");
    return memory_.back().data();
  }
  void finish() {
    if (const char* failure = device_.synchronize(); failure != nullptr) fail(failure);
  }
  // Microseconds for the work that one call of `queue` queues: the median of several runs of many
  // calls.
  template <typename Queue>
  double microseconds(const Queue& queue) {
    queue();  // The first call of a kernel loads it.
    const double one = std::max(1.0, time(queue));
    const auto calls = static_cast<int64_t>(std::max(1.0, kRunMicroseconds / one));
    std::vector<double> found;
    for (int run = 0; run < kRuns; ++run) {
      const double all = time([&] {
        for (int64_t i = 0; i < calls; ++i) queue();
      });
      found.push_back(all / static_cast<double>(calls));
    }
    std::nth_element(found.begin(), found.begin() + kRuns / 2, found.end());
    return found[kRuns / 2];
  }
  // Microseconds per call(number) of a kernel, whose calls are captured once and replayed.
  template <typename Call>
  double microseconds_in_graph(const Call& call) {
    call(0);
    const double one = std::max(1.0, time([&] { call(0); }));
    const auto calls = static_cast<int64_t>(std::clamp(kRunMicroseconds / one, 1.0, kMaxCaptured));
    std::string problem;
    if (const char* refused = device_.begin_capture(); refused != nullptr) fail(refused);
    for (int64_t i = 0; i < calls; ++i) call(i);
    const std::unique_ptr<CapturedQueue> graph = device_.end_capture(&problem);
    if (graph == nullptr) fail(problem.c_str());
    const double all = microseconds([&] {
      if (const char* failure = graph->replay(); failure != nullptr) fail(failure);
    });
    return all / static_cast<double>(calls);
  }
  // `more` are more members of the object.
  void print(const char* kernel, const std::string& shape, double time, int64_t bytes,
             int64_t flops, const char* more = "") {
    std::printf(
        "{\"kernel\": \"%s\", \"shape\": \"%s\", \"us\": %.2f, \"gb_s\": %.1f, \"gflop_s\": "
        "%.1f%s}\n",
        kernel, shape.c_str(), time, static_cast<double>(bytes) / time / 1e3,
        static_cast<double>(flops) / time / 1e3, more);
    std::fflush(stdout);  // If the process is killed, earlier results are kept.
  }
  void release() { memory_.clear(); }
  Device& device() { return device_; }

  bool all_right = true;  // No kernel that was checked had wrong bits.

  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "cuda_bench: %s\n", what);
    std::exit(1);
  }

 private:
  // Microseconds until the device has done all work that `queue` queues.
  template <typename Queue>
  double time(const Queue& queue) {
    finish();
    const auto begin = std::chrono::steady_clock::now();
    queue();
    finish();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  Device& device_;
  StagingMemory pattern_;
  std::vector<DeviceMemory> memory_;
};

// Whether the answers of the last call are those of the CPU's kernel.
bool has_right_candidates(Bench& bench, const TensorView& logits, DeviceStep& on_device,
                          StepView& step) {
  if (const char* failure = on_device.give(step); failure != nullptr) Bench::fail(failure);
  std::vector<float> here(static_cast<size_t>(logits.rows * logits.cols));
  bench.device().copy_out(here.data(), static_cast<const std::byte*>(logits.data),
                          static_cast<int64_t>(here.size() * sizeof(float)));
  bench.finish();
  return has_cpu_candidates({here.data(), logits.rows, logits.cols, logits.cols, DType::kF32},
                            step);
}

// Successive calls use the weight at args.in[1] and the copies that follow it, in rotation.
void run(Bench& bench, const KernelEntry& kernel, KernelArgs args, StepView* step,
         const std::string& shape, int64_t weight_copies = 1, int64_t weight_bytes = 0) {
  DeviceStep on_device(
      bench.device(),
      {.page_tokens = kPageTokens, .vocab = kVocab, .slice_columns = kVocab, .hidden = kHidden});
  StepView cost_step = step != nullptr ? *step : StepView{};
  args.step = &cost_step;
  const KernelCost cost = kernel_cost(kernel, args);
  if (step != nullptr) args.step = on_device.take(*step);
  args.scratch = bench.own(scratch_bytes(kernel, args, 1));
  args.queue = bench.device().queue();
  auto* const weight = static_cast<std::byte*>(args.in[1].data);
  const double time = bench.microseconds_in_graph([&](int64_t call) {
    if (weight_bytes > 0) args.in[1].data = weight + call % weight_copies * weight_bytes;
    kernel.run(args);
  });
  const char* check = "";
  if (kernel.op == Op::kTopCandidates) {
    const bool right = has_right_candidates(bench, args.in[0], on_device, *step);
    check = right ? ", \"same_bits\": true" : ", \"same_bits\": false";
    bench.all_right &= right;
  }
  bench.print(kernel.name, shape, time, cost.bytes, cost.flops, check);
  bench.release();
}

bool is_cublas(const KernelEntry& kernel) { return std::strstr(kernel.name, "cublas") != nullptr; }
bool is_wgmma(const KernelEntry& kernel) { return std::strstr(kernel.name, "wgmma") != nullptr; }

void run_linear(Bench& bench, const KernelEntry& kernel) {
  if (quantization(kernel.weight) && kernel.weight != DType::kQ8 && kernel.weight != DType::kQ4) {
    return;
  }
  const bool gated = kernel.op == Op::kGatedLinear;
  for (const auto& [cols, depth] : {std::pair(kHidden, kHidden), std::pair(2 * kFfn, kHidden)}) {
    if (gated && cols == kHidden) continue;
    for (const int64_t rows : {1, 8, 64, 512, 4096}) {
      if (rows > 512 && !is_cublas(kernel) && !is_wgmma(kernel)) continue;
      KernelArgs args;
      const int64_t bytes = kernel.packed_bytes(cols, depth);
      const int64_t copies = std::max<int64_t>(1, kCycledBytes / bytes);
      args.in[0] = bench.matrix(rows, depth, kernel.activation);
      args.in[1] = {bench.filled(copies * bytes), cols, depth, depth, kernel.weight};
      args.out[0] = gated ? bench.matrix(rows, cols / 2, DType::kBF16)
                          : bench.matrix(rows, cols, DType::kF32);
      if (gated) args.attrs = MapAttrs{.function = Function::kSilu};
      run(bench, kernel, args, nullptr,
          std::to_string(rows) + " x " + std::to_string(depth) + " x " + std::to_string(cols),
          copies, bytes);
    }
  }
}

// `rows` new positions of each of `count` sequences that end at kContext.
void run_attention(Bench& bench, const KernelEntry& kernel, int64_t count, int64_t rows) {
  std::vector<int32_t> positions, sequence_of_row, pages, kv_head_of;
  std::vector<StepSequence> sequences;
  constexpr int64_t kPages = kContext / kPageTokens;
  for (int64_t p = 0; p < count * kPages; ++p) pages.push_back(static_cast<int32_t>(p));
  for (int64_t h = 0; h < kHeads; ++h) {
    kv_head_of.push_back(static_cast<int32_t>(h * kKvHeads / kHeads));
  }
  for (int64_t s = 0; s < count; ++s) {
    sequences.push_back({s * rows, rows, kContext - rows, pages.data() + s * kPages});
    for (int64_t r = 0; r < rows; ++r) {
      positions.push_back(static_cast<int32_t>(kContext - rows + r));
      sequence_of_row.push_back(static_cast<int32_t>(s));
    }
  }
  StepView step;
  step.rows = count * rows;
  step.positions = positions.data();
  step.sequence_of_row = sequence_of_row.data();
  step.sequences = sequences.data();
  step.sequence_count = count;
  KernelArgs args;
  args.in[0] = bench.matrix(step.rows, kHeads * kHeadDim, DType::kF32);
  args.in[1] = args.in[2] = bench.matrix(step.rows, kKvHeads * kHeadDim, DType::kF32);
  args.out[0] = bench.matrix(step.rows, kHeads * kHeadDim, DType::kF32);
  std::byte* map = bench.own(kHeads * 4);
  bench.device().copy_in(map, kv_head_of.data(), kHeads * 4);
  args.attrs = AttentionAttrs{.heads = kHeads,
                              .kv_heads = kKvHeads,
                              .head_dim = kHeadDim,
                              .v_dim = kHeadDim,
                              .scale = 0.1f,
                              .kv_head_of = {reinterpret_cast<const int32_t*>(map), kHeads}};
  const int64_t page_bytes =
      kernel.page_bytes({kPageTokens, kKvHeads, kHeadDim, kHeadDim, kernel.weight});
  const TensorView memory = bench.matrix(count * kPages, page_bytes / 2, DType::kBF16);
  args.state = {static_cast<std::byte*>(memory.data), page_bytes, count * kPages, kPageTokens,
                kernel.weight};
  run(bench, kernel, args, &step,
      std::to_string(count) + " sequences, " + std::to_string(rows) + " rows each");
}

void run_rows(Bench& bench, const KernelEntry& kernel) {
  for (const int64_t rows : {1, 64, 512}) {
    KernelArgs args;
    for (TensorView& view : args.in) view = bench.matrix(rows, kHidden, DType::kF32);
    for (TensorView& view : args.out) view = bench.matrix(rows, kHidden, DType::kF32);
    args.in[3] = {};
    if (kernel.op != Op::kAddNorm) args.in[2] = args.out[1] = {};
    if (kernel.op == Op::kCast) args.in[1] = {};
    if (kernel.op == Op::kCast) args.out[0].dtype = DType::kBF16;
    args.attrs = OperatorAttrs(schema_of(kernel.op).attrs);
    if (args.attrs.kind() == AttrsKind::kNorm) args.attrs.norm().eps = 1e-5f;
    run(bench, kernel, args, nullptr, std::to_string(rows) + " x " + std::to_string(kHidden));
  }
}

// `spread`: all logits differ by the pattern; otherwise all are equal.
void run_candidates(Bench& bench, const KernelEntry& kernel, int64_t outputs, bool spread) {
  constexpr int64_t kBlocks = (kVocab + kVocabBlock - 1) / kVocabBlock;
  std::vector<Candidate> top(static_cast<size_t>(64 * outputs));
  std::vector<BlockSum> sums(static_cast<size_t>(kBlocks * outputs));
  std::vector<OutputSpec> requests(static_cast<size_t>(outputs));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].temperature = 0.7f;
    requests[i].top = top.data() + 64 * i;
    requests[i].top_count = 64;
    requests[i].want_noisy = true;
    requests[i].edited_sums = sums.data() + kBlocks * i;
  }
  StepView step;
  step.outputs = requests.data();
  step.output_count = outputs;
  KernelArgs args;
  args.in[0] = bench.matrix(outputs, kVocab, DType::kF32);
  auto* const logits = static_cast<std::byte*>(args.in[0].data);
  if (!spread) bench.device().clear(logits, outputs * kVocab * 4);
  args.attrs = TopCandidatesAttrs{};
  run(bench, kernel, args, &step,
      std::to_string(outputs) + " x " + std::to_string(kVocab) + (spread ? "" : ", all equal"));
}

// Copies within the GPU count their bytes twice: read and written.
void run_copies(Bench& bench) {
  Device& device = bench.device();
  std::byte *to = bench.own(kCycledBytes), *from = bench.filled(kCycledBytes);
  std::vector<std::byte> pageable(kCycledBytes);
  const StagingMemory pinned(device, kCycledBytes);
  if (pinned.data() == nullptr) Bench::fail("the system has too little locked memory");
  const auto print = [&](const char* what, int64_t bytes, const auto& copy) {
    bench.print("copy", what, bench.microseconds(copy), bytes, 0);
  };
  print("pinned host memory to GPU", kCycledBytes,
        [&] { device.copy_in(to, pinned.data(), kCycledBytes); });
  print("GPU to pinned host memory", kCycledBytes,
        [&] { device.copy_out(pinned.data(), from, kCycledBytes); });
  print("pageable host memory to GPU", kCycledBytes,
        [&] { device.copy_in(to, pageable.data(), kCycledBytes); });
  print("within the GPU", 2 * kCycledBytes,
        [&] { device.copy_rows({.to = to, .from = from, .row_bytes = kCycledBytes, .rows = 1}); });
  bench.release();
}

void run_all(Bench& bench) {
  run_copies(bench);
  for (const KernelEntry& kernel : cuda_kernels_of(bench.device())) {
    switch (kernel.op) {
      case Op::kLinear:
      case Op::kGatedLinear:
        run_linear(bench, kernel);
        break;
      case Op::kAttention:
        for (const int64_t count : {1, 16}) run_attention(bench, kernel, count, 1);
        for (const int64_t rows : {512, 4096}) run_attention(bench, kernel, 1, rows);
        break;
      case Op::kRmsNorm:
      case Op::kAddNorm:
      case Op::kGated:
      case Op::kCast:
        run_rows(bench, kernel);
        break;
      case Op::kTopCandidates:
        for (const int64_t outputs : {1, 16, 64}) run_candidates(bench, kernel, outputs, true);
        run_candidates(bench, kernel, 1, /*spread=*/false);
        break;
      default:
        break;
    }
  }
}

int main_of(const std::string& mode) {
  std::string problem;
  const int count = static_cast<int>(cuda_devices(&problem).size());
  for (int i = 0; i < count; ++i) {
    const std::unique_ptr<Device> device = open_cuda_device(i, &problem);
    std::printf("GPU %d: %s\n", i, device != nullptr ? device->name().c_str() : problem.c_str());
  }
  const std::unique_ptr<Device> device = open_cuda_device(0, &problem);
  if (device == nullptr) {
    std::fprintf(stderr, "no GPU: %s\n", problem.c_str());
    return 2;
  }
  if (mode == "--devices") return 0;
  if (mode == "--variants") {
    bool right = run_attention_variants(*device);
    right &= run_variants(*device);
    right &= run_expert_variants(*device);
    return right ? 0 : 1;
  }
  Bench bench(*device);
  run_all(bench);
  return bench.all_right ? 0 : 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::main_of(argc > 1 ? argv[1] : ""); }
