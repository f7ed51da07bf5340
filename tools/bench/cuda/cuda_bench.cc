// SPDX-License-Identifier: Apache-2.0
// Walks the table of CUDA kernels over shapes of an 8-billion-parameter Llama and prints
// microseconds, GB/s and GFLOP/s of each. Every figure is the median of
// several runs of many calls in a row; weights and pages are as many as the GPU's cache cannot
// hold.
//   cuda_bench            the table
//   cuda_bench --devices  the GPUs that can be used; exit code 2 and why where there are none
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "worker/kernels/cuda/step.h"
#include "worker/kernels/device.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

constexpr int64_t kHidden = 4096, kFfn = 14336, kVocab = 128256;
constexpr int64_t kHeads = 32, kKvHeads = 8, kHeadDim = 128, kPageTokens = 16, kContext = 4096;
constexpr int64_t kCycledBytes = int64_t{256} << 20;
constexpr int kRuns = 7;

class Bench {
 public:
  explicit Bench(Device& device) : device_(device) {}

  // A matrix of small numbers: every byte is 0x3c, which is 0.0117 as bf16 and as float32.
  TensorView matrix(int64_t rows, int64_t cols, DType dtype, int64_t copies = 1) {
    const int64_t bytes = copies * rows * cols * dtype_bytes(dtype);
    const std::vector<std::byte> host(static_cast<size_t>(bytes), std::byte{0x3c});
    std::byte* data = own(bytes);
    device_.copy_in(data, host.data(), bytes);
    finish();
    return {data, rows, cols, cols, dtype};
  }
  std::byte* own(int64_t bytes) {
    memory_.emplace_back(device_, bytes);
    if (memory_.back().data() == nullptr) fail("the GPU has too little memory");
    return memory_.back().data();
  }
  void finish() {
    if (const char* failure = device_.synchronize(); failure != nullptr) fail(failure);
  }
  // Microseconds of one call, the median.
  template <typename Call>
  double microseconds(const Call& call) {
    std::vector<double> found;
    int64_t calls = 1;
    for (int run = -1; run < kRuns;) {
      finish();
      const auto begin = std::chrono::steady_clock::now();
      for (int64_t i = 0; i < calls; ++i) call(i);
      finish();
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - begin;
      if (run < 0 && time.count() < 20000) {
        calls *= 2;
        continue;
      }
      if (run++ >= 0) found.push_back(time.count() / static_cast<double>(calls));
    }
    std::nth_element(found.begin(), found.begin() + kRuns / 2, found.end());
    return found[kRuns / 2];
  }
  void print(const std::string& what, double time, int64_t bytes, int64_t flops) {
    std::printf("%-44s %10.1f us %9.1f GB/s %10.1f GFLOP/s\n", what.c_str(), time,
                static_cast<double>(bytes) / time / 1e3, static_cast<double>(flops) / time / 1e3);
  }
  void release() { memory_.clear(); }
  Device& device() { return device_; }

  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "cuda_bench: %s\n", what);
    std::exit(1);
  }

 private:
  Device& device_;
  std::vector<DeviceMemory> memory_;
};

void run(Bench& bench, const KernelEntry& kernel, KernelArgs args, const StepView* step,
         const std::string& what, int64_t weight_copies = 1) {
  DeviceStep on_device(
      bench.device(),
      {.page_tokens = kPageTokens, .vocab = kVocab, .slice_columns = kVocab, .hidden = kHidden});
  StepView cost_step = step != nullptr ? *step : StepView{};
  args.step = &cost_step;
  const KernelCost cost = kernel_cost(kernel, args);
  if (step != nullptr) args.step = on_device.take(*step);
  args.scratch = bench.own(scratch_bytes(kernel, args, 1));
  args.queue = bench.device().queue();
  const TensorView weight = args.in[1];
  const double time = bench.microseconds([&](int64_t call) {
    const int64_t bytes = weight.rows * weight.cols * dtype_bytes(weight.dtype);
    args.in[1].data = static_cast<std::byte*>(weight.data) + call % weight_copies * bytes;
    kernel.run(args);
  });
  bench.print(std::string(kernel.name) + " " + what, time, cost.bytes, cost.flops);
  bench.release();
}

void run_linear(Bench& bench, const KernelEntry& kernel) {
  for (const auto& [cols, depth] : {std::pair(kHidden, kHidden), std::pair(2 * kFfn, kHidden)}) {
    for (const int64_t rows : {1, 8, 64, 512}) {
      KernelArgs args;
      const int64_t bytes = cols * depth * dtype_bytes(kernel.weight);
      const int64_t copies = std::max<int64_t>(1, kCycledBytes / bytes);
      args.in[0] = bench.matrix(rows, depth, kernel.activation);
      args.in[1] = bench.matrix(cols, depth, kernel.weight, copies);
      args.out[0] = bench.matrix(rows, cols, DType::kF32);
      run(bench, kernel, args, nullptr,
          std::to_string(rows) + " x " + std::to_string(depth) + " x " + std::to_string(cols),
          copies);
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
  args.attrs = {.head_dim = kHeadDim, .heads = kHeads, .kv_heads = kKvHeads, .scale = 0.1f};
  std::byte* map = bench.own(kHeads * 4);
  bench.device().copy_in(map, kv_head_of.data(), kHeads * 4);
  args.attrs.kv_head_of = reinterpret_cast<const int32_t*>(map);
  const int64_t page_bytes = kv_page_bytes(kPageTokens, kKvHeads, kHeadDim, kernel.weight);
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
    args.attrs.eps = 1e-5f;
    run(bench, kernel, args, nullptr, std::to_string(rows) + " x " + std::to_string(kHidden));
  }
}

void run_candidates(Bench& bench, const KernelEntry& kernel, int64_t outputs) {
  std::vector<Candidate> top(static_cast<size_t>(64 * outputs));
  std::vector<BlockSum> sums(static_cast<size_t>((kVocab + kVocabBlock - 1) / kVocabBlock));
  std::vector<OutputRequest> requests(static_cast<size_t>(outputs));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].temperature = 0.7f;
    requests[i].top = top.data() + 64 * i;
    requests[i].top_count = 64;
    requests[i].want_noisy = true;
    requests[i].edited_sums = sums.data();
  }
  StepView step;
  step.outputs = requests.data();
  step.output_count = outputs;
  KernelArgs args;
  args.in[0] = bench.matrix(outputs, kVocab, DType::kF32);
  run(bench, kernel, args, &step, std::to_string(outputs) + " x " + std::to_string(kVocab));
}

void run_all(Bench& bench) {
  std::byte* to = bench.own(kCycledBytes);
  std::vector<std::byte> host(kCycledBytes);
  const double in =
      bench.microseconds([&](int64_t) { bench.device().copy_in(to, host.data(), kCycledBytes); });
  bench.print("copy from pageable host memory", in, kCycledBytes, 0);
  bench.release();
  for (const KernelEntry& kernel : cuda_kernels()) {
    switch (kernel.op) {
      case Op::kLinear:
        run_linear(bench, kernel);
        break;
      case Op::kAttention:
        for (const int64_t count : {1, 16}) run_attention(bench, kernel, count, 1);
        run_attention(bench, kernel, 1, 512);
        break;
      case Op::kRmsNorm:
      case Op::kAddNorm:
      case Op::kGated:
      case Op::kCast:
        run_rows(bench, kernel);
        break;
      case Op::kTopCandidates:
        for (const int64_t outputs : {1, 16}) run_candidates(bench, kernel, outputs);
        break;
      default:
        break;
    }
  }
}

int main_of(bool devices_only) {
  std::string problem;
  const int count = cuda_device_count(&problem);
  for (int i = 0; i < count; ++i) {
    const std::unique_ptr<Device> device = open_cuda_device(i, &problem);
    std::printf("GPU %d: %s\n", i, device != nullptr ? device->name().c_str() : problem.c_str());
  }
  const std::unique_ptr<Device> device = open_cuda_device(0, &problem);
  if (device == nullptr) {
    std::fprintf(stderr, "no GPU: %s\n", problem.c_str());
    return 2;
  }
  if (devices_only) return 0;
  Bench bench(*device);
  run_all(bench);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::main_of(argc > 1 && std::strcmp(argv[1], "--devices") == 0);
}
