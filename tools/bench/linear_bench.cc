// SPDX-License-Identifier: Apache-2.0
// Linear kernels of every weight type over the matrices of a TinyLlama layer, for a few rows and
// for many: bytes and operations a second, and what share they are of a loop that only reads and
// of one that only multiplies, run just before. Flags are Google Benchmark's, e.g.
// --benchmark_filter=linear_q8_avx512_bf16; threads come from LOCKSTEP_BENCH_THREADS (1).
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

// Columns and depth of a layer's linears: q k v, o, gate and up, down.
struct Shape {
  int64_t cols, depth;
};
constexpr std::array<Shape, 4> kShapes = {
    {{2560, 2048}, {2048, 2048}, {11264, 2048}, {2048, 5632}}};
constexpr int64_t kMostDepth = 5632, kMostCols = 11264;
constexpr int64_t kCycledBytes = 512 << 20;  // More than caches hold.

ThreadPool& pool() {
  const char* threads = std::getenv("LOCKSTEP_BENCH_THREADS");
  static ThreadPool instance(threads == nullptr ? 1 : std::max(1, std::atoi(threads)));
  return instance;
}

// Huge pages where the system gives them, filled with what any type takes for small numbers.
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) std::abort();
    madvise(data_, bytes_, MADV_HUGEPAGE);
    auto* words = static_cast<uint32_t*>(data_);
    for (size_t i = 0; i < bytes_ / 4; ++i) {
      words[i] = 0x3c003c00u + static_cast<uint32_t>(i * 2654435761u >> 20 & 0xff);
    }
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* at(int64_t offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  size_t bytes_;
  void* data_;
};

const Memory& cycled() {
  static const Memory memory(kCycledBytes);
  return memory;
}

// The best of a few runs of `body`, which does `work`, a second.
template <typename Body>
double best_rate(double work, const Body& body) {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::max(best, work / time.count());
  }
  return best;
}

// What `bytes` of memory add up to, so that they have to be read; in four wide streams of sums.
#if defined(__x86_64__)
[[gnu::target("avx512f")]] uint64_t read_wide(const std::byte* from, int64_t bytes) {
  __m512i sums[4] = {};
  for (int64_t i = 0; i < bytes; i += 256) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      sums[v] = _mm512_add_epi64(sums[v], _mm512_load_si512(from + i + 64 * v));
    }
  }
  const __m512i sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return static_cast<uint64_t>(sum[0]);
}
#endif
uint64_t read(const std::byte* from, int64_t bytes) {
#if defined(__x86_64__)
  if (machine_isa() >= Isa::kAvx512) return read_wide(from, bytes);
#endif
  uint64_t words[8], sums[8] = {}, sum = 0;
  for (int64_t i = 0; i < bytes; i += sizeof(words)) {
    std::memcpy(words, from + i, sizeof(words));
    for (int w = 0; w < 8; ++w) sums[w] += words[w];
  }
  for (const uint64_t value : sums) sum += value;
  return sum;
}

// Bytes a second of all threads.
double read_rate() {
  constexpr int64_t kPiece = 4 << 20;
  std::vector<uint64_t> sums(static_cast<size_t>(kCycledBytes / kPiece));
  return best_rate(kCycledBytes, [&] {
    for_each(pool(), kCycledBytes / kPiece, [&](int64_t piece) {
      sums[static_cast<size_t>(piece)] = read(cycled().at(piece * kPiece), kPiece);
    });
    benchmark::DoNotOptimize(sums.data());
  });
}

#if defined(__x86_64__)
constexpr int kChains = 12;
constexpr int64_t kTurns = 1 << 20;
using Zmm = float __attribute__((vector_size(64)));

// Twelve independent chains of one instruction.
#define LOCKSTEP_CHAINS(name, isa, instruction)                            \
  __attribute__((target("avx512f," isa))) void name() {                    \
    Zmm factor = {}, sums[kChains] = {};                                   \
    for (int64_t i = 0; i < kTurns; ++i) {                                 \
      _Pragma("GCC unroll 12") for (Zmm & sum : sums) {                    \
        asm volatile(instruction " %1, %1, %0" : "+v"(sum) : "v"(factor)); \
      }                                                                    \
    }                                                                      \
  }
LOCKSTEP_CHAINS(multiply_floats, "avx512f", "vfmadd231ps")
LOCKSTEP_CHAINS(multiply_pairs, "avx512bf16", "vdpbf16ps")
LOCKSTEP_CHAINS(multiply_quads, "avx512vnni", "vpdpbusd")

// Operations a second of all threads, of the instruction that the kernel's products would take; 0
// where the machine has none.
double multiply_rate(const KernelEntry& kernel) {
  const bool pairs = kernel.activation == DType::kBF16;
  const bool quads = !pairs && quantization(kernel.weight);
  const Isa needed = pairs ? Isa::kAvx512Bf16 : quads ? Isa::kAvx512Vnni : Isa::kAvx512;
  if (machine_isa() < needed) return 0;
  const double products = 16 * (pairs ? 2 : quads ? 4 : 1);
  const auto chains = pairs ? multiply_pairs : quads ? multiply_quads : multiply_floats;
  const int threads = pool().threads();
  return best_rate(2 * products * kChains * kTurns * threads,
                   [&] { for_each(pool(), threads, [&](int64_t) { chains(); }); });
}
#else
double multiply_rate(const KernelEntry&) { return 0; }
#endif

void run_layers(benchmark::State& state, const KernelEntry& kernel, int64_t rows) {
  std::vector<KernelArgs> calls;
  const Memory x(rows * kMostDepth * 4), out(rows * kMostCols * 4);
  int64_t scratch = 64, layer = 0;
  KernelCost cost;
  for (const auto& [cols, depth] : kShapes) {
    KernelArgs& args = calls.emplace_back();
    args.in[0] = {x.at(0), rows, depth, depth, kernel.activation};
    args.in[1] = {cycled().at(layer), cols, depth, depth, kernel.weight};
    args.out[0] = {out.at(0), rows, cols, cols, DType::kF32};
    args.parallel = &pool();
    scratch = std::max(scratch, scratch_bytes(kernel, args, pool().threads()));
    layer += kernel.packed_bytes(cols, depth);
    const KernelCost one = kernel_cost(kernel, args);
    cost = {cost.bytes + one.bytes, cost.flops + one.flops};
  }
  const Memory scratch_memory(scratch);
  for (KernelArgs& args : calls) args.scratch = scratch_memory.at(0);
  const int64_t copies = std::max<int64_t>(1, kCycledBytes / layer);
  const double read = read_rate(), multiply = multiply_rate(kernel);
  int64_t next = 0;
  for (auto _ : state) {
    const int64_t offset = next++ % copies * layer;
    for (KernelArgs args : calls) {
      args.in[1].data = args.in[1].row<std::byte>(0) + offset;
      kernel.run(args);
    }
  }
  const auto runs = static_cast<double>(state.iterations());
  const auto count = [&](const char* name, double each) {
    state.counters[name] = {runs * each, benchmark::Counter::kIsRate};
  };
  count("bytes", static_cast<double>(cost.bytes));
  count("ops", static_cast<double>(cost.flops));
  count("read_percent", 100 * static_cast<double>(cost.bytes) / read);
  if (multiply > 0) count("multiply_percent", 100 * static_cast<double>(cost.flops) / multiply);
}

void register_all() {
  for (const KernelEntry& kernel : cpu_kernels()) {
    if (kernel.op != Op::kLinear || kernel.isa > machine_isa()) continue;
    for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64, 512}) {
      const std::string name = std::string(kernel.name) + "/rows:" + std::to_string(rows);
      benchmark::RegisterBenchmark(name.c_str(), [&kernel, rows](benchmark::State& state) {
        run_layers(state, kernel, rows);
      })->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  lockstep::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
