// SPDX-License-Identifier: Apache-2.0
#include "worker/kernel_choice/proof.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/numbers/numeric_class.h"
#include "base/status.h"
#include "operators/schema/schema.h"
#include "proto/attributes.h"
#include "worker/kernel_choice/attention_cases.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/kernel_choice/expert_cases.h"
#include "worker/kernel_choice/linear_trial.h"
#include "worker/kernel_choice/same_bits_trial.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;

constexpr double kFasterBy = 0.95;

// A linear or gated_linear of the program, and the weight that it reads.
struct Linear {
  TrialShape shape;
  int weight = 0;
};

std::optional<Linear> linear_of(const Program& program, const Instruction& instruction) {
  const Op op = op_of(instruction);
  if (op != Op::kLinear && op != Op::kGatedLinear) return std::nullopt;
  Linear linear{.shape = {.weight = weight_dtype(program, instruction),
                          .x = activation_dtype(program, instruction),
                          .op = op}};
  for (const program::Operand& operand : instruction.inputs()) {
    if (operand.kind_case() != program::Operand::kWeight) continue;
    const program::Weight& weight = program.weights(operand.weight());
    if (weight.role() == program::BIAS) {
      linear.shape.bias = true;
    } else {
      linear.weight = operand.weight();
      linear.shape.cols = weight.rows();
      linear.shape.depth = weight.cols();
    }
  }
  return linear;
}

// The first weight of each shape. A linear without columns on this rank has nothing to compute, and
// is left out.
std::map<TrialShape, int> shapes_of(const Program& program) {
  std::map<TrialShape, int> shapes;
  for (const Instruction& instruction : program.instructions()) {
    const auto linear = linear_of(program, instruction);
    if (!linear || linear->shape.cols == 0 || linear->shape.depth == 0) continue;
    shapes.emplace(linear->shape, linear->weight);
  }
  return shapes;
}

std::vector<const KernelEntry*> candidates_of(const Program& program, const Backend& backend,
                                              const TrialShape& shape) {
  return kernels_for(program, backend, shape.op, shape.weight, shape.x);
}

// The shape of an operator whose kernels have the same bits wherever a GPU has several of them.
std::optional<TrialShape> shape_of_alike(const Program& program, const Instruction& instruction) {
  TrialShape shape{.weight = weight_dtype(program, instruction),
                   .x = activation_dtype(program, instruction),
                   .op = op_of(instruction)};
  const OperatorAttrs attrs = bind_attributes(instruction.attributes());
  if (shape.op == Op::kAttention || shape.op == Op::kRopeAttention) {
    shape.cols = attrs.attention().heads * attrs.attention().head_dim;
    shape.depth = attrs.attention().head_dim;
  } else if (shape.op == Op::kExpertLinear) {
    const program::Weight& weight = program.weights(instruction.inputs(2).weight());
    shape.experts = attrs.expert().experts;
    shape.cols = weight.rows() / shape.experts;
    shape.depth = weight.cols();
    shape.bias = instruction.inputs_size() > 3;
  } else {
    return std::nullopt;
  }
  return shape;
}

// The same, if a GPU has several kernels. Nullopt, too, if this rank computes no columns.
std::optional<TrialShape> same_bits_shape(const Program& program, const Backend& backend,
                                          const Instruction& instruction) {
  if (backend.device->is_host()) return std::nullopt;
  const auto shape = shape_of_alike(program, instruction);
  if (!shape || shape->cols == 0 || shape->depth == 0) return std::nullopt;
  return candidates_of(program, backend, *shape).size() < 2 ? std::nullopt : shape;
}

// The first instruction of each such shape.
std::map<TrialShape, const Instruction*> same_bits_shapes_of(const Program& program,
                                                             const Backend& backend) {
  std::map<TrialShape, const Instruction*> shapes;
  for (const Instruction& instruction : program.instructions()) {
    const auto shape = same_bits_shape(program, backend, instruction);
    if (shape) shapes.emplace(*shape, &instruction);
  }
  return shapes;
}

// The kernel that gives the expected sums for both operators: linear's plain kernel. Every table
// has this kernel for the types that gated_linear takes.
const KernelEntry& plain_linear(const Program& program, const Backend& backend,
                                const TrialShape& shape) {
  const auto linears = kernels_for(program, backend, Op::kLinear, shape.weight, shape.x);
  LOCKSTEP_CHECK(!linears.empty());
  return *linears.back();
}

// True if the kernel was proven at one shape and refused at none.
bool is_trusted(const Proof& proof, const std::string& kernel) {
  bool proven = false;
  for (const Trial& trial : proof.trials) {
    if (trial.kernel != kernel) continue;
    if (trial.verdict == Verdict::kRefused) return false;
    proven |= trial.verdict == Verdict::kProven;
  }
  return proven;
}

bool may_serve(const Proof& proof, const TrialShape& shape, const std::string& kernel) {
  if (shape.cols == 0 || shape.depth == 0) return true;  // This rank computes nothing of it.
  const Trial* trial = proof.find(shape, kernel);
  if (trial == nullptr || trial->verdict == Verdict::kUnproven) return is_trusted(proof, kernel);
  return trial->verdict == Verdict::kProven;
}

// The mean of a kernel's times, each relative to the fastest for that number of rows.
double mean_of_times(const Proof& proof, const Trial& trial) {
  double sum = 0;
  int count = 0;
  for (const TriedRows& own : trial.rows) {
    if (own.ns == 0) continue;
    int64_t best = own.ns;
    for (const Trial& other : proof.trials) {
      if (other.shape != trial.shape || other.verdict != Verdict::kProven) continue;
      for (const TriedRows& tried : other.rows) {
        if (tried.rows == own.rows && tried.ns > 0) best = std::min(best, tried.ns);
      }
    }
    sum += static_cast<double>(own.ns) / static_cast<double>(best);
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::infinity() : sum / count;
}

const KernelEntry* choose(const std::vector<const KernelEntry*>& candidates,
                          const TrialShape& shape, const Proof& proof, bool by_time) {
  const KernelEntry* best = nullptr;
  double best_mean = std::numeric_limits<double>::infinity();
  for (const KernelEntry* kernel : candidates) {
    const Trial* trial = proof.find(shape, kernel->name);
    if (!by_time || trial == nullptr || trial->verdict != Verdict::kProven) continue;
    const double mean = mean_of_times(proof, *trial);
    if (best == nullptr || mean < kFasterBy * best_mean) {
      best = kernel;
      best_mean = mean;
    }
  }
  if (best != nullptr) return best;
  for (const KernelEntry* kernel : candidates) {
    if (may_serve(proof, shape, kernel->name)) return kernel;
  }
  return candidates.back();
}

std::string names_of(const std::vector<const KernelEntry*>& candidates) {
  std::string names;
  for (const KernelEntry* kernel : candidates) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kernel->name);
  }
  return names;
}

absl::StatusOr<std::unique_ptr<SameBitsTrials>> same_bits_trials(const TrialPlace& place,
                                                                 const Program& program,
                                                                 const TrialShape& shape,
                                                                 const Instruction& instruction,
                                                                 const KernelEntry& plain) {
  std::unique_ptr<TrialCases> cases;
  if (shape.op == Op::kExpertLinear) {
    const program::Value& ids = program.values(instruction.inputs(1).value());
    const int64_t each = program.row_domains(ids.rows()).rows_each();
    ASSIGN_OR_RETURN(cases, ExpertCases::make(place, shape, each, plain));
  } else {
    ASSIGN_OR_RETURN(cases, AttentionCases::make(place, program, instruction, plain));
  }
  return SameBitsTrials::make(place, std::move(cases), plain);
}

// prove() tries all unproven kernels of one shape. If there is no memory for a kernel's trial, this
// kernel and later ones stay unproven.
class Prover {
 public:
  Prover(const ProofOptions& options, Proof& proof)
      : options_(options),
        proof_(proof),
        end_ns_(options.now_ns() + options.budget_ms * 1'000'000) {}

  // `make` makes the trials of the shape when the first one begins.
  template <typename Make>
  absl::Status prove(const TrialShape& shape, const std::vector<const KernelEntry*>& candidates,
                     const Make& make) {
    decltype(make()) trials = nullptr;
    for (Trial& trial : proof_.trials) {
      if (trial.shape != shape || trial.verdict != Verdict::kUnproven) continue;
      const auto kernel = std::ranges::find_if(
          candidates, [&](const KernelEntry* one) { return trial.kernel == one->name; });
      if (kernel == candidates.end()) continue;
      if (options_.now_ns() >= end_ns_) return absl::OkStatus();
      if (options_.cancelled != nullptr && options_.cancelled->load()) {
        return absl::CancelledError("loading was cancelled");
      }
      if (options_.begins) options_.begins(trial);
      if (*trials == nullptr) trials = make();
      absl::Status status = trials.status();
      if (status.ok()) status = (*trials)->run(**kernel, &trial);
      if (absl::IsResourceExhausted(status)) {
        trial.problem = message_of(status);
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

 private:
  const ProofOptions& options_;
  Proof& proof_;
  const int64_t end_ns_;
};

}  // namespace

const Trial* Proof::find(const TrialShape& shape, const std::string& kernel) const {
  const auto found = std::ranges::find_if(
      trials, [&](const Trial& trial) { return trial.shape == shape && trial.kernel == kernel; });
  return found == trials.end() ? nullptr : &*found;
}

bool Proof::complete() const {
  return std::ranges::none_of(
      trials, [](const Trial& trial) { return trial.verdict == Verdict::kUnproven; });
}

Proof untried(const Program& program, const Backend& backend) {
  Proof proof;
  for (const auto& [shape, weight] : shapes_of(program)) {
    for (const KernelEntry* kernel : candidates_of(program, backend, shape)) {
      proof.trials.push_back({.shape = shape, .kernel = kernel->name});
    }
  }
  for (const auto& [shape, instruction] : same_bits_shapes_of(program, backend)) {
    for (const KernelEntry* kernel : candidates_of(program, backend, shape)) {
      proof.trials.push_back({.shape = shape, .kernel = kernel->name});
    }
  }
  return proof;
}

absl::Status prove(const Program& program, const Backend& backend, const WeightSource& source,
                   Parallel& parallel, const ProofOptions& options, Proof* proof) {
  const TrialPlace place{.device = *backend.device,
                         .source = source,
                         .parallel = parallel,
                         .max_rows = program.limits().rows(),
                         .same_bits = !is_fast_class(program.numeric_class()),
                         .now_ns = options.now_ns,
                         .progress = options.progress};
  const std::map<TrialShape, int> shapes = shapes_of(program);
  std::vector<std::pair<TrialShape, int>> ordered(shapes.begin(), shapes.end());
  std::ranges::stable_sort(ordered, {},
                           [](const auto& one) { return one.first.cols * one.first.depth; });
  Prover prover(options, *proof);
  for (const auto& one : ordered) {  // Clang 14 captures no structured bindings.
    const TrialShape& shape = one.first;
    const int weight = one.second;
    const auto candidates = candidates_of(program, backend, shape);
    if (candidates.empty()) continue;  // bind() reports it.
    RETURN_IF_ERROR(prover.prove(shape, candidates, [&] {
      return LinearTrials::make(place, shape, program.weights(weight),
                                plain_linear(program, backend, shape));
    }));
  }
  for (const auto& one : same_bits_shapes_of(program, backend)) {
    const auto candidates = candidates_of(program, backend, one.first);
    RETURN_IF_ERROR(prover.prove(one.first, candidates, [&] {
      return same_bits_trials(place, program, one.first, *one.second, *candidates.back());
    }));
  }
  return absl::OkStatus();
}

std::vector<std::string> complaints(const Proof& proof, int64_t budget_ms) {
  std::vector<std::string> lines;
  std::string left;
  const TrialShape* last = nullptr;
  int shapes = 0;
  for (const Trial& trial : proof.trials) {
    if (trial.verdict == Verdict::kRefused) {
      lines.push_back(
          fmt::format("{}: {} is not used: {}", text_of(trial.shape), trial.kernel, trial.problem));
    }
    if (trial.verdict != Verdict::kUnproven || (last != nullptr && *last == trial.shape)) continue;
    last = &trial.shape;
    ++shapes;
    left += fmt::format("{}{}{}", left.empty() ? "" : ", ", text_of(trial.shape),
                        trial.problem.empty() ? "" : " (" + trial.problem + ")");
  }
  if (shapes == 0) return lines;
  lines.push_back(fmt::format(
      "kernels of {} shapes are not proven in the {} s of one start, and the next "
      "start continues: {}; until then these shapes use kernels proven at other shapes, "
      "or else plain kernels, which may be many times slower",
      shapes, static_cast<double>(budget_ms) / 1000, left));
  return lines;
}

absl::StatusOr<std::vector<const KernelEntry*>> chosen_kernels(
    const Program& program, const Backend& backend, const Proof& proof,
    std::span<const std::string> wanted) {
  std::vector<const KernelEntry*> chosen;
  size_t linears = 0;
  for (const Instruction& instruction : program.instructions()) {
    chosen.push_back(nullptr);
    if (const auto shape = same_bits_shape(program, backend, instruction)) {
      chosen.back() = choose(candidates_of(program, backend, *shape), *shape, proof, true);
      continue;
    }
    const auto linear = linear_of(program, instruction);
    if (!linear) continue;
    const size_t number = linears++;
    const TrialShape& shape = linear->shape;
    const auto candidates = candidates_of(program, backend, shape);
    if (candidates.empty()) continue;  // bind() reports it.
    chosen.back() = choose(candidates, shape, proof, is_fast_class(program.numeric_class()));
    if (wanted.empty()) continue;
    const std::string name = number < wanted.size() ? wanted[number] : "";
    const auto found = std::ranges::find_if(
        candidates, [&](const KernelEntry* kernel) { return name == kernel->name; });
    if (found == candidates.end()) {
      return failed_precondition("kernel of linear {}: must be one of {}, found \"{}\"", number,
                                 names_of(candidates), printable(name));
    }
    if (const Trial* trial = proof.find(shape, name);
        trial != nullptr && trial->verdict == Verdict::kRefused && *found != candidates.back()) {
      return failed_precondition("kernel of linear {}: {} is refused here: {}", number, name,
                                 trial->problem);
    }
    chosen.back() = *found;
  }
  if (wanted.empty() || linears == wanted.size()) return chosen;
  return failed_precondition("kernels must be given for {} linears, found {}", linears,
                             wanted.size());
}

std::map<TrialShape, std::string> by_shape(const Program& program, const Backend& backend,
                                           const std::vector<const KernelEntry*>& chosen) {
  std::map<TrialShape, std::string> kernels;
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& instruction = program.instructions(i);
    const KernelEntry* kernel = chosen[static_cast<size_t>(i)];
    if (kernel == nullptr) continue;
    auto shape = same_bits_shape(program, backend, instruction);
    if (const auto linear = linear_of(program, instruction)) shape = linear->shape;
    if (shape) kernels.emplace(*shape, kernel->name);
  }
  return kernels;
}

std::vector<std::string> kernels_text(const Program& program, const Backend& backend,
                                      const Proof& proof,
                                      const std::vector<const KernelEntry*>& chosen) {
  std::vector<std::string> all;
  for (int i = 0; i < program.instructions_size(); ++i) {
    const auto linear = linear_of(program, program.instructions(i));
    if (!linear || chosen[static_cast<size_t>(i)] == nullptr) continue;
    const TrialShape& shape = linear->shape;
    const auto candidates = candidates_of(program, backend, shape);
    std::string text = chosen[static_cast<size_t>(i)]->name;
    for (const KernelEntry* kernel : candidates) {
      const bool last = kernel == candidates.back();
      if (kernel == chosen[static_cast<size_t>(i)]) continue;
      if (last || may_serve(proof, shape, kernel->name)) text += fmt::format(",{}", kernel->name);
    }
    all.push_back(std::move(text));
  }
  return all;
}

}  // namespace lockstep
