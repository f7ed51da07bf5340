// SPDX-License-Identifier: Apache-2.0
// What an operator is, in one row: operands, row domains, columns, effects, attributes, check,
// cost. The compiler checks graphs by it, workers check programs by it, and whoever has to know
// something of an operator asks its row. Tables are constant; everything here is thread-safe.
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

// What an operand is. Matrices are packed by their kernel; rows (norms, biases) stay as they are.
// Ids are a value too, of int32 and one column.
enum class OperandKind : uint8_t { kNone, kValue, kIds, kEmbedding, kMatrix, kNorm, kBias };
constexpr bool is_value(OperandKind kind) {
  return kind == OperandKind::kValue || kind == OperandKind::kIds;
}

struct OperandSchema {
  const char* name = nullptr;
  OperandKind kind = OperandKind::kNone;
  bool optional = false;  // Only behind all that are required.
};

// Row domains of the operator's values: all in one domain, which is any, tokens or outputs; or
// tokens in and outputs out; or as check() says.
enum class RowRule : uint8_t { kSame, kTokens, kOutputs, kTokensToOutputs, kOwn };
// Types of the values but ids: inputs float32, or all alike of float32 and bfloat16, or also rows
// that are rounded in groups; outputs as named, kIdsFirst being int32 and then float32, kMayRound
// float32, but the last one may be rounded to bfloat16 (by GPUs' kernels).
enum class InputTypes : uint8_t { kF32, kAlike, kAlikeOrRounded };
enum class OutputTypes : uint8_t { kF32, kMayRound, kBF16, kRounded, kSame, kIdsFirst };
// Columns: every value has those of the first input, and each column is computed by itself; the
// same, but columns depend on each other; the outputs have those of the first input; or as check()
// says.
enum class ColumnRule : uint8_t { kEach, kAlike, kOutputsAlike, kOwn };
// Who does it: a kernel, the ranks together, or nobody, since the output is a view of the input.
enum class RunBy : uint8_t { kKernel, kCollective, kView };
// What of a layer outlives the step.
enum class StateKind : uint8_t { kNone, kKvPages, kBlock };
struct OperandShape {
  int64_t rows = 0;  // Of weights.
  int64_t cols = 0;
  DType dtype = DType::kNone;  // Matrices: as computed with.
  bool present = false;
  int64_t matrices = 1;   // Of weights: so many below each other (side by side in a bias).
  int64_t rows_each = 0;  // Of values: rows for each token; 0: rows are counted by outputs.
};

// KV pages of a layer: keys of k_dim columns and values of v_dim for each head; with a v_dim of 0
// values are the first columns of keys.
struct KvShape {
  int64_t kv_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
};

// What a layer keeps of a sequence in one block.
struct BlockShape {
  int64_t rows = 0;
  int64_t cols = 0;
};

// What a program says of the whole model and of its rank.
struct ProgramFacts {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t context = 0;  // Positions that a sequence may have.
  int rank = 0;
  int ranks = 1;
  int state_count = 0;
};

// One use of an operator, from a graph or a program.
struct OperatorCall {
  std::array<OperandShape, kMaxInputs> in = {};  // In the row's order; matrices included.
  std::array<OperandShape, kMaxOutputs> out = {};
  OperatorAttrs attrs;
  const ProgramFacts* program = nullptr;  // Null in a graph, which does not know these yet.
  KvShape kv;                             // Of the state that attrs name; programs only.
  BlockShape block;                       // The same; the operator has the one or the other.
};

// The first thing wrong with a call: "columns of the bias must be 8, found 9"; "" if all is well.
// Each method says whether its condition holds, so that a check is a chain of && that ends at the
// first that does not, before what relies on it.
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
  bool effect = false;    // Is never dead: writes state, gives results or meets other ranks.
  bool in_place = false;  // Every kernel may write its first output over an input of its shape.
  // What the fields above do not say: attributes' ranges, columns of an own rule. Null: nothing.
  bool (*check)(const OperatorCall& call, Finding& finding) = nullptr;
  // Arithmetic per element of the first input, a multiply-add as two; -1: as kernel_cost() says.
  int flops_per_element = 0;

  int input_count() const;     // Values and weights, optional ones included.
  int required_count() const;  // Without these.
  int value_count() const;     // Inputs that are values, optional ones included.
  int required_values() const;
  int output_count() const;
  // Rows of its first input times a matrix: where the input is split, the strategy decides.
  bool multiplies() const;
  bool may_round() const { return output_types == OutputTypes::kMayRound; }
};

// The operator's row; an empty one for kNone and for numbers that are no operator.
const OperatorSchema& schema_of(Op op);

// The row domains of every program: indices into its list, which may go on.
inline constexpr int kTokenRows = 0;
inline constexpr int kOutputRows = 1;

// Whether values of these row domains go together. What is wrong, or "".
std::string check_row_rule(const OperatorSchema& schema, std::span<const int> in,
                           std::span<const int> out);
// Types, columns, attributes: everything but row domains and the number of operands, which callers
// check while they look operands up. What is wrong, or "".
std::string check_call(const OperatorSchema& schema, const OperatorCall& call);

// The text of docs/operators.md.
std::string operators_page();

}  // namespace lockstep
