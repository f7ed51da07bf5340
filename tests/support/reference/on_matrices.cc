// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference/on_matrices.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "operators/schema/schema.h"
#include "tests/support/reference/reference.h"

namespace lockstep::naive {
namespace {

using Ids = std::vector<int32_t>;

TensorView view_of(const Matrix& matrix) {
  auto* const data = const_cast<float*>(matrix.data.data());
  return {data, matrix.rows, matrix.cols, matrix.cols, DType::kF32};
}

TensorView view_of(Ids& ids, const Matrix& matrix) {
  ids.assign(matrix.data.begin(), matrix.data.end());
  return {ids.data(), matrix.rows, matrix.cols, matrix.cols, DType::kI32};
}

// A step of one sequence, whose positions are all in the one page or block of `state`.
struct WholeSequence {
  explicit WholeSequence(const OperatorArgs& args)
      : positions(args.tokens.size()),
        sequence_of_row(args.tokens.size()),
        output_rows(args.output_rows.begin(), args.output_rows.end()),
        sequence{.rows = std::ssize(args.tokens),
                 .pages = &page,
                 .rope_length = args.rope_length,
                 .prefix_rows = args.prefix_rows,
                 .held_position = args.held_position},
        step{.rows = std::ssize(args.tokens),
             .tokens = args.tokens.data(),
             .positions = positions.data(),
             .sequence_of_row = sequence_of_row.data(),
             .sequences = &sequence,
             .sequence_count = 1,
             .output_rows = output_rows.data(),
             .output_count = std::ssize(output_rows)} {
    std::iota(positions.begin(), positions.end(), 0);
  }

  int32_t page = 0;
  std::vector<int32_t> positions, sequence_of_row, output_rows;
  StepSequence sequence;
  StepView step;
};

// An upper bound of the number of floats that the operator keeps of a sequence.
size_t state_size(const OperatorSchema& schema, const KernelArgs& args) {
  const TensorView* in = args.in;
  if (schema.state == StateKind::kNone) return 0;
  if (schema.state == StateKind::kKvPages) return in[0].rows * (in[1].cols + in[2].cols);
  if (schema.attrs != AttrsKind::kRecurrence) return kMaxTaps * in[0].cols;
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  return attrs.heads * attrs.k_dim * attrs.v_dim;
}

// Runs the operator whose output is a view: columns.
void show_columns(const OperatorArgs& args, Matrix& out) {
  const Matrix& x = *args.inputs[0];
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) out.at(r, c) = x.at(r, args.attrs.columns().begin + c);
  }
}

}  // namespace

void run_operator(Op op, const OperatorArgs& args, std::span<Matrix> outputs) {
  if (op == Op::kColumns) return show_columns(args, outputs[0]);
  if (op == Op::kRoundGroups) {  // Interpreters do not round rows, and neither do their linears.
    outputs[0] = *args.inputs[0];
    return;
  }
  const OperatorSchema& schema = schema_of(op);
  WholeSequence whole(args);
  KernelArgs call{.attrs = args.attrs, .step = &whole.step};
  Ids ids_in, ids_out;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    const Matrix& in = *args.inputs[i];
    call.in[i] = schema.inputs[i].kind == OperandKind::kIds ? view_of(ids_in, in) : view_of(in);
  }
  const bool ids_first = schema.output_types == OutputTypes::kIdsFirst;
  for (size_t i = 0; i < outputs.size(); ++i) {
    call.out[i] = ids_first && i == 0 ? view_of(ids_out, outputs[i]) : view_of(outputs[i]);
  }
  std::vector<float> state(state_size(schema, call));
  call.state = {.data = reinterpret_cast<std::byte*>(state.data()),
                .pages = 1,
                .page_tokens = whole.step.rows,
                .dtype = DType::kF32};
  if (schema.state == StateKind::kKvPages) {
    call.attrs.attention().read_only = false;  // The inputs have k and v of the whole sequence.
  }
  const KernelFn run = reference::kernel(op);
  LOCKSTEP_CHECK(run != nullptr && run(call) == nullptr);
  if (ids_first) std::ranges::copy(ids_out, outputs[0].data.begin());
}

}  // namespace lockstep::naive
