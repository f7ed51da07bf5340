// SPDX-License-Identifier: Apache-2.0
// An operator's definition in one row: operands, row domains, columns, effects, attributes, check,
// cost. The compiler checks graphs with it, workers check programs with it, and other code reads an
// operator's properties from it. Tables are constant; everything here is thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/numbers/dtype.h"
#include "operators/attributes.h"
#include "operators/limits.h"
#include "operators/op.h"

namespace lockstep {

// The kind of an operand. Matrices are packed by their kernel; kernels read norms and biases as
// they are stored. Ids are values too: int32, one column.
enum class OperandKind : uint8_t { kNone, kValue, kIds, kEmbedding, kMatrix, kNorm, kBias };
constexpr bool is_value(OperandKind kind) {
  return kind == OperandKind::kValue || kind == OperandKind::kIds;
}

struct OperandSchema {
  const char* name = nullptr;
  OperandKind kind = OperandKind::kNone;
  bool optional = false;  // Only after all required operands.
};

// Row domains. kSame: one for all values; kTokens: tokens; kOutputs: a step's outputs;
// kTokensToOutputs: tokens for inputs, a step's outputs for results; kOwn: check() decides.
enum class RowRule : uint8_t { kSame, kTokens, kOutputs, kTokensToOutputs, kOwn };
// Types of the values except ids. Inputs: kF32; kAlike: all float32 or all bfloat16;
// kAlikeOrRounded: also rows rounded in groups. Outputs: kIdsFirst: the first is int32, the others
// float32; kMayRound: float32, but GPU kernels may round the last output to bfloat16.
enum class InputTypes : uint8_t { kF32, kAlike, kAlikeOrRounded };
enum class OutputTypes : uint8_t { kF32, kMayRound, kBF16, kRounded, kSame, kIdsFirst };
// Numbers of columns. kEach: every value has as many as the first input, and each column is
// computed separately. kAlike: as many, but a column may depend on others. kOutputsAlike: only the
// outputs have as many as the first input. kOwn: check() decides.
enum class ColumnRule : uint8_t { kEach, kAlike, kOutputsAlike, kOwn };
// How an operator runs: by a kernel, by all ranks together, or not at all (its output is a view).
enum class RunBy : uint8_t { kKernel, kCollective, kView };
// The state of a layer that outlives the step.
enum class StateKind : uint8_t { kNone, kKvPages, kBlock };
struct OperandShape {
  int64_t rows = 0;  // Weights only.
  int64_t cols = 0;
  DType dtype = DType::kNone;  // Matrices: the type of the computation.
  bool present = false;
  int64_t matrices = 1;   // Weights: number of matrices stacked vertically (biases: side by side).
  int64_t rows_each = 0;  // Values: rows per token; 0: rows are counted per output.
};

// KV pages of a layer: keys of k_dim columns and values of v_dim per head. If v_dim is 0, values
// are the first columns of keys.
struct KvShape {
  int64_t kv_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
};

// The state block that a layer keeps per sequence.
struct BlockShape {
  int64_t rows = 0;
  int64_t cols = 0;
};

// A program's facts about the whole model and its rank.
struct ProgramFacts {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t context = 0;  // The max positions of a sequence.
  int rank = 0;
  int ranks = 1;
  int state_count = 0;
};

// One use of an operator, from a graph or a program.
struct OperatorCall {
  std::array<OperandShape, kMaxInputs> in = {};  // In the row's order, matrices included.
  std::array<OperandShape, kMaxOutputs> out = {};
  OperatorAttrs attrs;
  const ProgramFacts* program = nullptr;  // Null in a graph, which has no such facts.
  KvShape kv;                             // The pages that attrs name; programs only.
  BlockShape block;                       // The state block that attrs name, instead of `kv`.
};

// The first problem of a call: "columns of the bias must be 8, found 9"; "" if there is none. Each
// method returns whether its condition holds. So a check is a chain of && that stops at the first
// failure, before a later condition relies on it.
struct Finding {
  std::string text;

  bool equal(const char* what, int64_t found, int64_t wanted);
  bool within(const char* what, int64_t found, int64_t min, int64_t max);
  bool finite(const char* what, float found, float min, float max);
  bool holds(bool condition, const char* otherwise);
};

struct OperatorSchema {
  Op op = Op::kNone;
  const char* formula = nullptr;  // For docs/operators.md.
  AttrsKind attrs = AttrsKind::kNone;
  std::array<OperandSchema, kMaxInputs> inputs = {};
  std::array<const char*, kMaxOutputs> outputs = {};
  RowRule rows = RowRule::kSame;
  InputTypes input_types = InputTypes::kF32;
  OutputTypes output_types = OutputTypes::kF32;
  ColumnRule columns = ColumnRule::kOwn;
  RunBy run_by = RunBy::kKernel;
  StateKind state = StateKind::kNone;
  bool effect = false;    // Never removed: writes state, gives results or is a collective.
  bool in_place = false;  // Every kernel may write its first output over an input of its shape.
  // All other checks: further limits of attributes, columns of kOwn. Null: there are none.
  bool (*check)(const OperatorCall& call, Finding& finding) = nullptr;
  // Operations per element of the first input; a multiply-add is 2. -1: kernel_cost() counts them.
  int flops_per_element = 0;

  int input_count() const;     // Values and weights, optional ones included.
  int required_count() const;  // The same without optional ones.
  int value_count() const;     // Inputs that are values, optional ones included.
  int required_values() const;
  int output_count() const;
  // Whether the operator multiplies rows of its first input by a matrix. Strategy says what happens
  // if these rows are split.
  bool multiplies() const;
  bool may_round() const { return output_types == OutputTypes::kMayRound; }
};

// The operator's row; an empty one for kNone and for unknown numbers.
const OperatorSchema& schema_of(Op op);

// The first two row domains of every program, as indices into its list, which may have more.
inline constexpr int kTokenRows = 0;
inline constexpr int kOutputRows = 1;

// Checks that values of these row domains fit the operator. Returns the problem, or "".
std::string check_row_rule(const OperatorSchema& schema, std::span<const int> in,
                           std::span<const int> out);
// Checks types, columns and attributes: everything except row domains and the number of operands,
// which callers check while they look operands up. Returns the problem, or "".
std::string check_call(const OperatorSchema& schema, const OperatorCall& call);

// The text of docs/operators.md.
std::string operators_page();

}  // namespace lockstep
