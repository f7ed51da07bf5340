// SPDX-License-Identifier: Apache-2.0
// Measures the linear kernels of every weight type over the matrices of a TinyLlama layer, for few
// and for many rows. Prints bytes and operations per second, and what share they are of the rates
// of two loops that run just before: one only reads, the other only multiplies. Also prints the
// additions per cycle (base/system/busy_sibling.h): the smaller of the values before and after the
// measurement. With AMX, also measures each way to multiply by tiles
// (worker/kernels/cpu/tiles/tile_ways.h) for any number of rows. Flags are Google Benchmark's, e.g.
// --benchmark_filter=linear_q8_avx512_bf16; the number of threads is LOCKSTEP_BENCH_THREADS (1).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/busy_sibling.h"
#include "base/system/cpu.h"
#include "tools/bench/memory.h"
#include "tools/bench/peaks.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

// Columns and depth of a layer's linears: q k v, o, gate and up, down.
struct Shape {
  int64_t cols, depth;
};
constexpr std::array<Shape, 4> kShapes = {
    {{2560, 2048}, {2048, 2048}, {11264, 2048}, {2048, 5632}}};
constexpr int64_t kMaxDepth = 5632, kMaxCols = 11264;

// The best rate of a few runs of `body`, which returns the amount of its work.
template <typename Body>
double best_rate(const Body& body) {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const int64_t work = body();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(work) / time.count());
  }
  return best;
}

// Bytes per second of all threads, with the faster of the two ReadOrders.
double read_rate() {
  double best = 0;
  for (const ReadOrder order : kReadOrders) {
    best = std::max(best, best_rate([order] {
                      read_cycled(order);
                      return kCycledBytes;
                    }));
  }
  return best;
}

// Operations per second of all threads, for the kernel's kind of products.
double multiply_rate(const KernelEntry& kernel) {
  const bool pairs = kernel.activation == DType::kBF16;
  const std::string_view kind = pairs ? "bf16" : quantization(kernel.weight) ? "int8" : "fp32";
  const int threads = pool().threads();
  double best = 0;
  for (const Peak& peak : peaks()) {
    if (peak.kind != kind || !machine_runs(peak.isa)) continue;
    best = std::max(best, best_rate([&] {
                      std::atomic<int64_t> operations{0};
                      for_each(pool(), threads, [&](int64_t) { operations += peak.run(1 << 20); });
                      return operations.load();
                    }));
  }
  return best;
}

void run_layers(benchmark::State& state, const KernelEntry& kernel, int64_t rows) {
  std::vector<KernelArgs> calls;
  const Memory x(rows * kMaxDepth * 4), out(rows * kMaxCols * 4);
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
  const double adds = adds_per_cycle();
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
  state.counters["adds_per_cycle"] = std::min(adds, adds_per_cycle());
  if (multiply > 0) count("multiply_percent", 100 * static_cast<double>(cost.flops) / multiply);
}

void register_rows(const KernelEntry& kernel) {
  for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128, 512}) {
    const std::string name = std::string(kernel.name) + "/rows:" + std::to_string(rows);
    benchmark::RegisterBenchmark(name.c_str(), [kernel, rows](benchmark::State& state) {
      run_layers(state, kernel, rows);
    })->UseRealTime();
  }
}

void register_all() {
  for (const KernelEntry& kernel : cpu_kernels()) {
    if (kernel.op == Op::kLinear && machine_runs(kernel.isa)) register_rows(kernel);
  }
  if (!machine_runs(Isa::kAmx)) return;
  for (const KernelVariant& variant : amx_variants()) {
    for (KernelEntry kernel : cpu_kernels()) {
      if (kernel.op != Op::kLinear || kernel.isa != Isa::kAmx || kernel.weight != variant.weight) {
        continue;
      }
      kernel.run = variant.run;
      kernel.name = variant.name;
      register_rows(kernel);
    }
  }
}

// Google Benchmark's own help follows.
void print_help() {
  std::puts(
      "linear_bench: each kernel of linear over the matrices of a TinyLlama layer.\n"
      "  read_percent      of a loop that only reads, measured just before\n"
      "  multiply_percent  of a loop that only multiplies in registers, measured just before\n"
      "  adds_per_cycle    4 to 6 if the core works for this thread alone, half of that beside a\n"
      "                    busy hardware thread; compare figures of one state only\n"
      "With AMX, linear_bf16_amx and linear_q8c_amx choose by the number of rows. Each way is "
      "also\n"
      "measured for every number:\n"
      "  _chunks           K in chunks that fit the first cache (up to 64 rows)\n"
      "  _two_registers    sums in tiles over all of K, operands through two registers (more "
      "rows)\n"
      "  _four_registers   the same with operands through four registers (not chosen)\n"
      "LOCKSTEP_BENCH_THREADS: the number of threads (1).\n");
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help") lockstep::print_help();
  benchmark::Initialize(&argc, argv);
  lockstep::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
