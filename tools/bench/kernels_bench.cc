// SPDX-License-Identifier: Apache-2.0
// Measures this machine's limits, and all CPU kernels over real shapes, except those of linear
// (linear_bench.cc) and of experts. Prints GB/s and GFLOP/s. Flags are Google Benchmark's, e.g.
// --benchmark_filter=attention_bf16; the number of threads is LOCKSTEP_BENCH_THREADS (1). Keys and
// values rotate through more memory than the caches hold.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/system/cpu.h"
#include "operators/schema/schema.h"
#include "tools/bench/memory.h"
#include "tools/bench/peaks.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

constexpr int64_t kHidden = 2048, kVocab = 32000;  // TinyLlama 1.1B
constexpr int64_t kHeads = 32, kKvHeads = 4, kHeadDim = 64, kPageTokens = 16;

// A kernel's parameters. Only attention uses heads other than TinyLlama's.
struct Heads {
  int64_t query = kHeads;
  int64_t kv = kKvHeads;
  int64_t dim = kHeadDim;
  int64_t latent = 0;  // If not 0, values are the first `latent` columns of keys.
};
struct Case {
  int64_t rows = 1;
  int64_t context = 512;
  Heads heads = {};
};

// The arguments of any operator's call, for `rows` tokens of one sequence that ends at `context`.
struct Setup {
  int64_t rows;
  Heads heads;
  std::vector<Memory*> owned;
  std::vector<int32_t> tokens, positions, sequence_of_row, pages, output_rows, kv_head_of;
  std::vector<float> inv_freq;
  std::vector<OutputSpec> outputs;
  std::vector<Candidate> candidates;
  std::vector<BlockSum> sums;
  int64_t copies = 1;  // Copies of pages or block, which calls use in rotation, as layers do.
  StepSequence sequence;
  StepView step;
  KernelArgs args;

  Setup(const KernelEntry& kernel, const Case& wanted) : rows(wanted.rows), heads(wanted.heads) {
    args.parallel = &pool();
    make_step(wanted.context);
    args.attrs = attrs_of(kernel.op);
    make_views(kernel);
    args.scratch = memory(scratch_bytes(kernel, args, pool().threads()) + 64);
  }
  ~Setup() {
    for (Memory* memory : owned) delete memory;
  }

  std::byte* memory(int64_t bytes) {
    owned.push_back(new Memory(bytes));
    return owned.back()->at(0);
  }
  TensorView view(int64_t view_rows, int64_t cols, DType dtype = DType::kF32) {
    return {memory(std::max<int64_t>(64, view_rows * row_bytes(dtype, cols))), view_rows, cols,
            cols, dtype};
  }

  void make_step(int64_t context) {
    for (int64_t r = 0; r < rows; ++r) {
      tokens.push_back(static_cast<int32_t>(r * 61 % kVocab));
      positions.push_back(static_cast<int32_t>(context - rows + r));
      output_rows.push_back(static_cast<int32_t>(r));
    }
    sequence_of_row.assign(static_cast<size_t>(rows), 0);
    for (int64_t i = 0; i * kPageTokens < context; ++i) pages.push_back(static_cast<int32_t>(i));
    for (int64_t i = 0; i < heads.query; ++i) {
      kv_head_of.push_back(static_cast<int32_t>(i * heads.kv / heads.query));
    }
    for (int64_t i = 0; i < kHeadDim / 2; ++i) {
      inv_freq.push_back(std::pow(1e4f, -2 * static_cast<float>(i) / kHeadDim));
    }
    sequence = {0, rows, context - rows, pages.data()};
    outputs.resize(static_cast<size_t>(rows));
    candidates.resize(static_cast<size_t>(rows) * 64);
    sums.resize(static_cast<size_t>(rows) * (kVocab / kVocabBlock));
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].temperature = 0.8f;
      outputs[i].want_noisy = true;
      outputs[i].top = &candidates[i * 64];
      outputs[i].top_count = 64;
      outputs[i].edited_sums = &sums[i * (kVocab / kVocabBlock)];
    }
    step.rows = rows;
    step.tokens = tokens.data();
    step.positions = positions.data();
    step.sequence_of_row = sequence_of_row.data();
    step.sequences = &sequence;
    step.sequence_count = 1;
    step.output_rows = output_rows.data();
    step.outputs = outputs.data();
    step.output_count = rows;
    args.step = &step;
  }

  OperatorAttrs attrs_of(Op op) const {
    const ArrayView<int32_t> head_map = {kv_head_of.data(), heads.query};
    const bool latent = heads.latent > 0;
    static constexpr float kOneScale = 1;
    switch (schema_of(op).attrs) {
      case AttrsKind::kNorm:
        return NormAttrs{.eps = 1e-5f, .head_dim = heads.dim};
      case AttrsKind::kRopeTable:
        return RopeTableAttrs{.inv_freq = {inv_freq.data(), std::ssize(inv_freq)}, .factor = 1};
      case AttrsKind::kRope:
        return RopeAttrs{.head_dim = heads.dim, .rotary_dim = heads.dim};
      case AttrsKind::kPositionScale:
        return PositionScaleAttrs{.scales = {&kOneScale, 1}, .length = 1};
      case AttrsKind::kMap:
        return MapAttrs{.function = Function::kSilu};
      case AttrsKind::kConv:
        return ConvAttrs{.taps = 4};
      case AttrsKind::kAttention:
        return AttentionAttrs{.heads = heads.query,
                              .kv_heads = heads.kv,
                              .head_dim = heads.dim,
                              .v_dim = latent ? heads.latent : heads.dim,
                              .scale = 0.125f,
                              .values_in_keys = latent,
                              .kv_head_of = head_map};
      case AttrsKind::kRecurrence:
        return RecurrenceAttrs{.heads = heads.query,
                               .key_heads = heads.kv,
                               .k_dim = heads.dim,
                               .v_dim = heads.dim,
                               .scale = 0.125f,
                               .eps = 1e-5f,
                               .key_head_of = head_map};
      default:
        return OperatorAttrs(schema_of(op).attrs);
    }
  }

  void make_blocks(int64_t elements) {
    const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
    copies = std::max<int64_t>(1, kCycledBytes / bytes);
    args.state = {.data = memory(bytes * copies), .page_bytes = bytes, .pages = copies};
  }

  void make_views(const KernelEntry& kernel) {
    switch (kernel.op) {
      case Op::kEmbed:
        args.in[0] = {memory(kernel.packed_bytes(kVocab, kHidden)), kVocab, kHidden, kHidden,
                      kernel.weight};
        args.out[0] = view(rows, kHidden);
        return;
      case Op::kRopeTable:
        args.out[0] = view(rows, kHeadDim);
        return;
      case Op::kRope:
        args.in[0] = args.out[0] = view(rows, kHeads * kHeadDim);
        args.in[1] = view(rows, kHeadDim);
        return;
      case Op::kAttention: {
        args.in[0] = view(rows, heads.query * heads.dim);
        args.in[1] = view(rows, heads.kv * heads.dim);
        args.in[2] = heads.latent > 0 ? args.in[1] : view(rows, heads.kv * heads.dim);
        args.out[0] = view(rows, heads.query * args.attrs.attention().v_dim);
        const int64_t v_dim = heads.latent > 0 ? 0 : heads.dim;
        const int64_t bytes =
            kernel.page_bytes({kPageTokens, heads.kv, heads.dim, v_dim, kernel.weight});
        const auto count = static_cast<int64_t>(pages.size());
        copies = rows > 16 ? 1 : std::max<int64_t>(1, kCycledBytes / (bytes * count));
        args.state = {memory(bytes * count * copies), bytes, count, kPageTokens, kernel.weight};
        return;
      }
      case Op::kTopCandidates:
        args.in[0] = view(rows, kVocab);
        return;
      case Op::kConv:
        args.in[0] = args.out[0] = view(rows, kHidden);
        args.in[1] = view(1, kHidden * 4);
        return make_blocks(3 * kHidden);
      case Op::kDeltaRule:
        args.in[0] = view(rows, heads.kv * heads.dim);
        args.in[1] = view(rows, heads.kv * heads.dim);
        args.in[2] = args.out[0] = view(rows, heads.query * heads.dim);
        args.in[3] = view(rows, heads.query);
        args.in[4] = view(rows, heads.query);
        return make_blocks(heads.query * heads.dim * heads.dim);
      default:
        break;
    }
    const bool norm = kernel.op == Op::kRmsNorm || kernel.op == Op::kHeadNorm;
    args.in[0] = view(rows, kHidden);
    args.in[1] = norm ? view(1, kHidden) : view(rows, kHidden);
    args.in[2] = view(1, kHidden);
    args.out[0] = view(rows, kHidden,
                       kernel.op == Op::kCast          ? DType::kBF16
                       : kernel.op == Op::kRoundGroups ? DType::kA8
                                                       : DType::kF32);
    args.out[1] = view(rows, kHidden);
  }
};

void report(benchmark::State& state, const KernelCost& cost) {
  const auto runs = static_cast<double>(state.iterations());
  const auto rate = benchmark::Counter::kIsRate;
  state.counters["GB/s"] = {runs * static_cast<double>(cost.bytes) / 1e9, rate};
  state.counters["GFLOP/s"] = {runs * static_cast<double>(cost.flops) / 1e9, rate};
}

void run_attention(benchmark::State& state, const KernelEntry& kernel, const Case& wanted) {
  Setup setup(kernel, wanted);
  std::byte* const first = setup.args.state.data;
  int64_t next = 0;
  for (auto _ : state) {
    const int64_t copy = next++ % setup.copies;
    setup.args.state.data = first + copy * setup.args.state.pages * setup.args.state.page_bytes;
    kernel.run(setup.args);
  }
  report(state, kernel_cost(kernel, setup.args));
}

void run_kernel(benchmark::State& state, const KernelEntry& kernel, int64_t rows) {
  Setup setup(kernel, {.rows = rows});
  for (auto _ : state) {
    setup.sequence.slot = (setup.sequence.slot + 1) % setup.copies;
    kernel.run(setup.args);
  }
  report(state, kernel_cost(kernel, setup.args));
}

// The machine's own limits: all threads sum up 512 MiB, or multiply and add in registers.
void read_limit(benchmark::State& state, ReadOrder order) {
  read_cycled(order);  // The first call fills the memory.
  for (auto _ : state) read_cycled(order);
  report(state, {.bytes = kCycledBytes, .flops = 0});
}

void peak_limit(benchmark::State& state, const Peak& peak) {
  constexpr int64_t kRounds = 1 << 16;
  std::vector<int64_t> done(static_cast<size_t>(pool().threads()));
  for (auto _ : state) {
    for_each(pool(), pool().threads(),
             [&](int64_t index) { done[static_cast<size_t>(index)] = peak.run(kRounds); });
  }
  report(state, {.bytes = 0, .flops = std::accumulate(done.begin(), done.end(), int64_t{0})});
}

// Decode, and prefill of 512 rows, each with short and long context. The shapes of heads, in order:
// TinyLlama's; Llama 3.2 1B's; Qwen2.5 0.5B's; Llama 3 8B's; one query head per KV head;
// DeepSeek-V3's latent attention; the same with an eighth of the heads.
void register_attention(const KernelEntry& kernel) {
  for (const Heads& heads :
       {Heads{32, 4, 64}, Heads{32, 8, 64}, Heads{14, 2, 64}, Heads{32, 8, 128}, Heads{32, 32, 64},
        Heads{128, 1, 576, 512}, Heads{16, 1, 576, 512}}) {
    for (const auto& [rows, context] :
         {std::pair(1, 512), std::pair(1, 4096), std::pair(512, 512), std::pair(512, 4608)}) {
      const Case wanted = {rows, context, heads};
      const std::string name =
          std::string(kernel.name) + "/heads:" + std::to_string(heads.query) +
          "/kv_heads:" + std::to_string(heads.kv) + "/head_dim:" + std::to_string(heads.dim) +
          "/rows:" + std::to_string(rows) + "/context:" + std::to_string(context);
      benchmark::RegisterBenchmark(name.c_str(), [&kernel, wanted](benchmark::State& state) {
        run_attention(state, kernel, wanted);
      })->UseRealTime();
    }
  }
}

void register_all() {
  benchmark::RegisterBenchmark("limit/read", read_limit, ReadOrder::kHardware)->UseRealTime();
  benchmark::RegisterBenchmark("limit/read_four_pages", read_limit, ReadOrder::kFourPages)
      ->UseRealTime();
  for (const Peak& peak : peaks()) {
    if (!machine_runs(peak.isa)) continue;
    const std::string name = std::string("limit/") + peak.kind + "/" + isa_name(peak.isa);
    benchmark::RegisterBenchmark(name.c_str(), [&peak](benchmark::State& state) {
      peak_limit(state, peak);
    })->UseRealTime();
  }
  for (const KernelEntry& kernel : cpu_kernels()) {
    const bool routes =
        kernel.op == Op::kRoute || kernel.op == Op::kExpertLinear || kernel.op == Op::kCombine;
    if (!machine_runs(kernel.isa) || kernel.op == Op::kLinear || routes) continue;
    if (kernel.op == Op::kAttention) {
      register_attention(kernel);
      continue;
    }
    for (const int64_t rows : {1, 4, 16, 512}) {
      const std::string name = std::string(kernel.name) + "/rows:" + std::to_string(rows);
      benchmark::RegisterBenchmark(name.c_str(), [&kernel, rows](benchmark::State& state) {
        run_kernel(state, kernel, rows);
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
