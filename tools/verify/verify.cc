// SPDX-License-Identifier: Apache-2.0
// On each rank a whole value is compared with the whole reference, and a part with its columns of
// the reference. Addends are summed before they are compared.
#include "tools/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "operators/op.h"
#include "tools/verify/counterparts.h"
#include "tools/verify/rank_values.h"

namespace lockstep {
namespace {

using program::Program;

// The reference's matrix for one value: all rows of the prompt, or of its routes.
struct Wanted {
  int64_t rows = 0;
  int64_t cols = 0;
  double largest = 0;
  std::vector<float> data;
};

class Verifier {
 public:
  Verifier(const Graph& model, std::span<const Program> programs, std::span<const ValueParts> parts,
           const Reference& reference, const VerifyOptions& options)
      : programs_(programs),
        parts_(parts),
        reference_(reference),
        options_(options),
        counterparts_(find_counterparts(model, reference)) {
    for (const ValueInfo& info : model.values()) names_.insert(info.name);
  }

  absl::Status take(const RankValues& made);
  absl::StatusOr<Verification> result() &&;

 private:
  std::string name_of_model(const std::string& name) const;
  absl::StatusOr<const Wanted*> wanted_for(const std::string& name);
  absl::Status compare(const RankValues& made, size_t index);
  void compare_rows(const RankValues& made, const RankValue& value, int rank, const Wanted& wanted,
                    Comparison& comparison) const;
  Comparison& comparison_of(const RankValue& value, const std::string& reference);
  void check_candidates(const RankValues& made);
  std::vector<Suspect> suspects_of(const Comparison& first) const;

  std::span<const Program> programs_;
  std::span<const ValueParts> parts_;
  const Reference& reference_;
  const VerifyOptions& options_;
  const std::map<std::string, Counterpart> counterparts_;
  std::set<std::string> names_;            // The names of the model's values.
  std::map<std::string, Wanted> wanted_;   // The matrices read so far, by the model's value.
  std::map<int, Comparison> comparisons_;  // By rank 0's value.
  std::optional<Comparison> candidates_;   // For top_candidates, which makes no value.
};

// The model's value from which a program's value was made: "model.layers.0.mlp.down_proj" for
// "model.layers.0.mlp.down_proj.bf16.all".
std::string Verifier::name_of_model(const std::string& name) const {
  std::string known = name;
  while (!known.empty() && !names_.contains(known)) {
    known.resize(known.find_last_of('.') == std::string::npos ? 0 : known.find_last_of('.'));
  }
  return known;
}

absl::StatusOr<const Wanted*> Verifier::wanted_for(const std::string& name) {
  const auto known = wanted_.find(name);
  if (known != wanted_.end()) return &known->second;
  const auto found = counterparts_.find(name);
  if (found == counterparts_.end()) return nullptr;
  Wanted wanted{.rows = found->second.runs[0].tensor->rows};
  for (const Counterpart::Run& run : found->second.runs) {
    if (run.tensor->rows != wanted.rows) return nullptr;
    wanted.cols += run.end - run.begin;
  }
  wanted.data.resize(static_cast<size_t>(wanted.rows * wanted.cols));
  const TensorInfo* tensor = nullptr;
  std::vector<float> data;
  int64_t column = 0;
  for (const Counterpart::Run& run : found->second.runs) {
    if (run.tensor != tensor) {
      ASSIGN_OR_RETURN(data, reference_.read(*run.tensor));
      tensor = run.tensor;
    }
    for (int64_t row = 0; row < wanted.rows; ++row) {
      const float* from = data.data() + row * tensor->cols + run.begin;
      std::copy_n(from, run.end - run.begin, wanted.data.data() + row * wanted.cols + column);
    }
    column += run.end - run.begin;
  }
  for (const float x : wanted.data) wanted.largest = std::max(wanted.largest, std::fabs(double{x}));
  return &wanted_.emplace(name, std::move(wanted)).first->second;
}

Comparison& Verifier::comparison_of(const RankValue& value, const std::string& reference) {
  const auto [found, added] = comparisons_.try_emplace(value.value);
  Comparison& comparison = found->second;
  if (added) {
    const Program& program = programs_[0];
    comparison.instruction = value.instruction;
    comparison.op = op_name(static_cast<Op>(program.instructions(value.instruction).op()));
    comparison.name = program.values(value.value).name();
    comparison.reference = reference;
  }
  return comparison;
}

// `value` has the rank's columns of `wanted`. If rank is -1, `value` is the sum of all ranks'
// addends and has all columns.
void Verifier::compare_rows(const RankValues& made, const RankValue& value, int rank,
                            const Wanted& wanted, Comparison& comparison) const {
  const auto& parts = parts_[static_cast<size_t>(std::max(rank, 0))];
  const auto& program = programs_[static_cast<size_t>(std::max(rank, 0))];
  const int64_t begin = parts.at(program.values(value.value).name()).columns.begin;
  const auto tokens = static_cast<int64_t>(made.tokens.size());
  const int64_t each = value.rows / std::max<int64_t>(1, tokens);  // Routes per token.
  for (int64_t row = 0; row < value.rows; ++row) {
    const float* want = wanted.data.data() + (made.first_row * each + row) * wanted.cols + begin;
    const float* found = value.data.data() + row * value.cols;
    for (int64_t column = 0; column < value.cols; ++column) {
      if (found[column] == want[column]) continue;
      double error = std::fabs(double{found[column]} - double{want[column]});
      error = std::isfinite(error) ? error / std::max(wanted.largest, 1e-30)
                                   : std::numeric_limits<double>::infinity();
      if (error <= comparison.error) continue;
      comparison.error = error;
      comparison.row = made.first_row + row / std::max<int64_t>(1, each);
      comparison.column = begin + column;
      comparison.rank = rank;
      comparison.found = found[column];
      comparison.wanted = want[column];
    }
  }
}

// Compares the value at `index` of rank 0's list, on all ranks.
absl::Status Verifier::compare(const RankValues& made, size_t index) {
  const RankValue& first = made.ranks[0][index];
  const std::string& name = programs_[0].values(first.value).name();
  const auto part = parts_[0].find(name);
  // The value joins several values of the model. Their views are compared instead.
  if (part == parts_[0].end()) return absl::OkStatus();
  const std::string model_name = name_of_model(name);
  ASSIGN_OR_RETURN(const Wanted* wanted, wanted_for(model_name));
  if (wanted == nullptr || wanted->cols != part->second.all_columns) return absl::OkStatus();
  const auto prompt = static_cast<int64_t>(reference_.tokens().size());
  const auto tokens = static_cast<int64_t>(made.tokens.size());
  if (first.rows % tokens != 0 || wanted->rows != first.rows / tokens * prompt) {
    return absl::OkStatus();
  }
  Comparison& comparison = comparison_of(first, counterparts_.at(model_name).name);
  const bool partial = part->second.layout.kind == LayoutKind::kPartial;
  RankValue sum = first;
  for (size_t rank = 0; rank < made.ranks.size(); ++rank) {
    if (index >= made.ranks[rank].size() ||
        programs_[rank].values(made.ranks[rank][index].value).name() != name) {
      return absl::InternalError(fmt::format("rank {} has no value {}", rank, name));
    }
    const RankValue& own = made.ranks[rank][index];
    if (!partial) {
      compare_rows(made, own, static_cast<int>(rank), *wanted, comparison);
    } else if (rank > 0) {
      LOCKSTEP_CHECK(own.data.size() == sum.data.size());
      for (size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += own.data[i];
    }
  }
  if (partial) compare_rows(made, sum, -1, *wanted, comparison);
  comparison.differs = !(comparison.error <= options_.tolerance);
  return absl::OkStatus();
}

// Checks that the token that each rank reports as its best has the largest of the rank's logits.
void Verifier::check_candidates(const RankValues& made) {
  const Program& program = programs_[0];
  if (!candidates_) {
    candidates_ = Comparison{.instruction = program.instructions_size() - 1,
                             .op = "top_candidates",
                             .name = "the best token of each row",
                             .reference = "the largest of the rank's own logits"};
  }
  for (size_t rank = 0; rank < made.results.size(); ++rank) {
    for (int row = 0; row < made.results[rank].outputs_size(); ++row) {
      const cluster::Candidates& output = made.results[rank].outputs(row);
      std::vector<float> logits(output.logits().size() / sizeof(float));
      std::copy_n(output.logits().data(), logits.size() * sizeof(float),
                  reinterpret_cast<char*>(logits.data()));
      if (logits.empty()) continue;
      const float best = *std::max_element(logits.begin(), logits.end());
      const float found = output.top().logits_size() > 0 ? output.top().logits(0) : 0;
      if (found == best || candidates_->differs) continue;
      candidates_->differs = true;
      candidates_->error =
          std::fabs(double{found} - double{best}) / std::max(std::fabs(double{best}), 1e-30);
      candidates_->row = made.first_row + row;
      candidates_->column = output.top().ids_size() > 0 ? output.top().ids(0) : 0;
      candidates_->rank = static_cast<int>(rank);
      candidates_->found = found;
      candidates_->wanted = best;
    }
  }
}

absl::Status Verifier::take(const RankValues& made) {
  for (size_t index = 0; index < made.ranks[0].size(); ++index) {
    RETURN_IF_ERROR(compare(made, index));
  }
  if (made.last) check_candidates(made);
  return absl::OkStatus();
}

// Goes backwards from the operator of `first`, up to values that agree.
std::vector<Suspect> Verifier::suspects_of(const Comparison& first) const {
  const Program& program = programs_[0];
  std::vector<int> makers(static_cast<size_t>(program.values_size()), -1);
  for (int i = 0; i < program.instructions_size(); ++i) {
    for (const int output : program.instructions(i).outputs()) makers[output] = i;
  }
  std::set<int> found = {first.instruction};
  std::vector<int> left = {first.instruction};
  while (!left.empty()) {
    const program::Instruction& instruction = program.instructions(left.back());
    left.pop_back();
    for (const program::Operand& operand : instruction.inputs()) {
      if (!operand.has_value() || comparisons_.contains(operand.value())) continue;
      const int maker = makers[operand.value()];
      if (found.insert(maker).second) left.push_back(maker);
    }
  }
  std::vector<Suspect> suspects;
  for (const int i : found) {
    const program::Instruction& instruction = program.instructions(i);
    if (instruction.op() == program::COLUMNS) continue;
    const std::string name = i == first.instruction ? first.name
                             : instruction.outputs_size() == 0
                                 ? ""
                                 : program.values(instruction.outputs(0)).name();
    suspects.push_back({i, std::string(op_name(static_cast<Op>(instruction.op()))), name});
  }
  return suspects;
}

absl::StatusOr<Verification> Verifier::result() && {
  Verification result;
  result.values = candidates_ ? 1 : 0;
  for (const program::Value& value : programs_[0].values()) {
    result.values += parts_[0].contains(value.name()) ? 1 : 0;
  }
  if (comparisons_.empty()) {
    return invalid_argument("the reference has none of the model's {} values under a known name",
                            result.values);
  }
  for (auto& [value, comparison] : comparisons_) result.compared.push_back(std::move(comparison));
  std::stable_sort(
      result.compared.begin(), result.compared.end(),
      [](const Comparison& a, const Comparison& b) { return a.instruction < b.instruction; });
  if (candidates_) result.compared.push_back(*candidates_);
  const auto first = std::ranges::find_if(result.compared, &Comparison::differs);
  if (first == result.compared.end()) return result;
  result.first = *first;
  result.suspects = suspects_of(*first);
  return result;
}

}  // namespace

absl::StatusOr<Verification> verify(const Graph& model, std::span<const Program> programs,
                                    std::span<const ValueParts> parts, const Reference& reference,
                                    const VerifyOptions& options, Group& group) {
  LOCKSTEP_CHECK(!programs.empty() && programs.size() == parts.size());
  Verifier verifier(model, programs, parts, reference, options);
  RETURN_IF_ERROR(run_for_values(programs, reference.tokens(), options.rows, group,
                                 [&](const RankValues& made) { return verifier.take(made); }));
  return std::move(verifier).result();
}

}  // namespace lockstep
