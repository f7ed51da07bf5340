// SPDX-License-Identifier: Apache-2.0
// Each rank is a Machine: a list of operators, parameters as matrices, and values as matrices (of a
// graph) or in an arena (of a program). All machines run up to the next collective, which is then
// computed from the values of all of them.
#include "tests/support/goldens/interpret.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/numbers/dtype.h"
#include "base/numbers/float16.h"
#include "base/numbers/quantization.h"
#include "operators/op.h"
#include "proto/attributes.h"
#include "proto/validate/validate.h"
#include "sharding/check.h"
#include "tests/support/goldens/dequantize.h"
#include "tests/support/reference/on_matrices.h"

namespace lockstep::naive {
namespace {

struct Slot {
  DType dtype = DType::kF32;
  program::RowDomain rows;
  int64_t cols = 0;
  int64_t stride = 0;  // Only for the arena, like offset_bytes.
  int64_t offset_bytes = 0;
};

struct Step {
  Op op = Op::kNone;
  std::vector<int> inputs, parameters, outputs;
  program::Attributes attributes;
};

float rounded(float value, DType dtype) {
  return dtype == DType::kBF16 ? bf16_to_float(float_to_bf16(value)) : value;
}

// Replaces a matrix by its values after quantization.
void quantize(const Quantization& kind, Matrix* matrix) {
  const int64_t rows = matrix->rows, cols = matrix->cols;
  std::vector<int8_t> codes(rows * cols);
  std::vector<uint16_t> scales(rows * group_count(kind, cols)), minima(scales.size());
  const QuantizedRows view{codes.data(), scales.data(), kind.minimum ? minima.data() : nullptr};
  quantize_rows(kind, matrix->data.data(), cols, rows, cols, view);
  dequantize_rows(kind, view, rows, cols, matrix->data.data(), cols);
}

double length_of_row(const Tensor& tensor, int64_t row) {
  const int64_t cols = tensor.shape.back();
  double squares = 0;
  for (int64_t c = 0; c < cols; ++c) squares += std::pow(double{tensor.data[row * cols + c]}, 2);
  return std::sqrt(squares);
}

// The source column of column c. In the source, columns of piece.interleaved() kinds alternate; c
// counts all columns of the first kind, then all of the second, and so on.
int64_t source_column(const program::Piece& piece, int64_t c) {
  if (piece.interleaved() == 0) return c;
  const int64_t cols = piece.source_shape(piece.source_shape_size() - 1);
  const int64_t each = cols / piece.interleaved();
  return c % each * piece.interleaved() + c / each;
}

// A parameter made of its pieces: stacked or, for a vector, side by side in its one row.
Matrix assemble(const Tensors& tensors, program::Role role, DType dtype, int64_t rows, int64_t cols,
                std::span<const program::Piece> pieces) {
  Matrix result(rows, cols);
  const bool vector = role == program::BIAS || role == program::NORM;
  int64_t row = 0, col = 0;
  for (const program::Piece& piece : pieces) {
    const auto found = tensors.find(piece.source());
    LOCKSTEP_CHECK(found != tensors.end());
    const Tensor& tensor = found->second;
    LOCKSTEP_CHECK(std::equal(tensor.shape.begin(), tensor.shape.end(),
                              piece.source_shape().begin(), piece.source_shape().end()));
    const int64_t source_cols = piece.flat() ? std::ssize(tensor.data) : tensor.shape.back();
    for (int64_t r = piece.row_begin(); r < piece.row_end(); ++r) {
      for (int64_t c = piece.col_begin(); c < piece.col_end(); ++c) {
        int64_t to_row = r - piece.row_begin(), to_col = c - piece.col_begin();
        if (piece.transpose()) std::swap(to_row, to_col);
        const double length = piece.unit_rows() ? length_of_row(tensor, r) : 1;
        const float value = tensor.data[r * source_cols + source_column(piece, c)];
        result.at(row + to_row, col + to_col) =
            rounded(static_cast<float>(value / length) + piece.plus(), dtype);
      }
    }
    const int64_t down = piece.row_end() - piece.row_begin();
    const int64_t across = piece.col_end() - piece.col_begin();
    (vector ? col : row) += vector != piece.transpose() ? across : down;
  }
  LOCKSTEP_CHECK(rows == 0 || cols == 0 || (vector ? col == cols : row == rows));
  if (const auto kind = quantization(dtype)) quantize(*kind, &result);
  return result;
}

// A paired parameter: rows (columns of a vector) of the first half and the second half alternate.
Matrix in_pairs(const Matrix& halves, bool vector) {
  Matrix result(halves.rows, halves.cols);
  const int64_t half = (vector ? halves.cols : halves.rows) / 2;
  const auto place = [half](int64_t i) { return i < half ? 2 * i : 2 * (i - half) + 1; };
  for (int64_t r = 0; r < halves.rows; ++r) {
    for (int64_t c = 0; c < halves.cols; ++c) {
      result.at(vector ? r : place(r), vector ? place(c) : c) = halves.at(r, c);
    }
  }
  return result;
}

class Machine {
 public:
  Machine(const Graph& graph, const Tensors& tensors);
  Machine(const program::Program& program, const Tensors& tensors);

  void begin(const Sequence& sequence) {
    sequence_ = &sequence;
    next_ = 0;
  }
  // Runs up to a collective, or to the end (null).
  const Step* run();
  Matrix collective_input() const { return load(steps_[next_].inputs[0]); }
  void finish_collective(const Matrix& result) { store(steps_[next_++].outputs[0], result); }

  Matrix value(int index) const { return load(index); }  // From the last run.
  const Matrix& logits() const { return logits_; }
  int64_t vocab_begin() const { return vocab_begin_; }

 private:
  int64_t rows_of(const Slot& slot) const {
    return lockstep::rows_in(slot.rows, std::ssize(sequence_->tokens),
                             std::ssize(sequence_->outputs));
  }
  // Rounded rows are stored in values_, as the numbers before they were rounded. Their bytes in the
  // arena have marks, by which load() checks that nothing else was written there.
  template <typename Visit>
  void each_byte(const Slot& slot, const Visit& visit) const;
  static std::byte mark_of(int value) { return static_cast<std::byte>(value * 37 + 11); }
  Matrix load(int value) const;
  void store(int value, const Matrix& matrix);
  void run_step(const Step& step);

  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::vector<Matrix> parameters_;
  std::vector<Matrix> values_;    // Values of graphs, and rounded ones.
  std::vector<std::byte> arena_;  // Values of programs.
  bool in_arena_ = false;
  const Sequence* sequence_ = nullptr;
  size_t next_ = 0;
  Matrix logits_;
  int64_t vocab_begin_ = 0;
};

Machine::Machine(const Graph& graph, const Tensors& tensors) : values_(graph.values().size()) {
  LOCKSTEP_CHECK(check_graph(graph).ok());
  for (const ValueInfo& info : graph.values()) {
    slots_.push_back(
        {.dtype = info.dtype, .rows = graph.row_domains[info.rows], .cols = info.axis.columns()});
  }
  for (const Node& node : graph.nodes()) {
    steps_.push_back({node.op, node.inputs, node.parameters, node.outputs, node.attributes});
  }
  for (const Parameter& p : graph.parameters()) {
    parameters_.push_back(assemble(tensors, p.role, p.dtype, p.all_rows(), p.all_cols(), p.pieces));
    if (p.paired) parameters_.back() = in_pairs(parameters_.back(), p.is_vector());
  }
}

Machine::Machine(const program::Program& program, const Tensors& tensors)
    : values_(program.values_size()),
      arena_(program.arena_bytes() + program.shared_bytes(), std::byte{0xff}),
      in_arena_(true) {
  LOCKSTEP_CHECK(validate(program).ok());
  for (const program::Value& value : program.values()) {
    slots_.push_back({static_cast<DType>(value.dtype()), program.row_domains(value.rows()),
                      value.cols(), value.stride(),
                      value.offset_bytes() + (value.shared() ? program.arena_bytes() : 0)});
  }
  for (const program::Instruction& instruction : program.instructions()) {
    Step step{.op = static_cast<Op>(instruction.op()),
              .inputs = {},
              .parameters = {},
              .outputs = {instruction.outputs().begin(), instruction.outputs().end()},
              .attributes = instruction.attributes()};
    for (const program::Operand& operand : instruction.inputs()) {
      if (operand.has_value()) step.inputs.push_back(operand.value());
      if (operand.has_weight()) step.parameters.push_back(operand.weight());
    }
    steps_.push_back(std::move(step));
  }
  for (const program::Weight& w : program.weights()) {
    const std::vector<program::Piece> pieces(w.pieces().begin(), w.pieces().end());
    parameters_.push_back(
        assemble(tensors, w.role(), static_cast<DType>(w.dtype()), w.rows(), w.cols(), pieces));
    const bool vector = w.role() == program::BIAS;
    if (w.paired()) parameters_.back() = in_pairs(parameters_.back(), vector);
  }
}

// Visits the positions of a value's bytes in the arena.
template <typename Visit>
void Machine::each_byte(const Slot& slot, const Visit& visit) const {
  const int64_t bytes = row_bytes(slot.dtype, slot.cols);
  for (int64_t r = 0; r < rows_of(slot); ++r) {
    const int64_t begin = slot.offset_bytes + r * row_bytes(slot.dtype, slot.stride);
    LOCKSTEP_CHECK(begin + bytes <= static_cast<int64_t>(arena_.size()));
    for (int64_t i = 0; i < bytes; ++i) visit(begin + i);
  }
}

Matrix Machine::load(int value) const {
  if (!in_arena_) return values_[value];
  const Slot& slot = slots_[value];
  if (is_rounded(slot.dtype)) {
    each_byte(slot, [&](int64_t at) { LOCKSTEP_CHECK(arena_[at] == mark_of(value)); });
    return values_[value];
  }
  Matrix matrix(rows_of(slot), slot.cols);
  const int64_t bytes = dtype_bytes(slot.dtype);
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t c = 0; c < matrix.cols; ++c) {
      const std::byte* at = arena_.data() + slot.offset_bytes + (r * slot.stride + c) * bytes;
      uint16_t half = 0;
      if (slot.dtype == DType::kBF16) {
        std::memcpy(&half, at, 2);
        matrix.at(r, c) = bf16_to_float(half);
      } else {
        std::memcpy(&matrix.at(r, c), at, 4);
      }
    }
  }
  return matrix;
}

void Machine::store(int value, const Matrix& matrix) {
  const Slot& slot = slots_[value];
  LOCKSTEP_CHECK(matrix.rows == rows_of(slot) && matrix.cols == slot.cols);
  if (!in_arena_ || is_rounded(slot.dtype)) {
    values_[value] = matrix;
    for (float& number : values_[value].data) number = rounded(number, slot.dtype);
    if (in_arena_) each_byte(slot, [&](int64_t at) { arena_[at] = mark_of(value); });
    return;
  }
  const int64_t bytes = dtype_bytes(slot.dtype);
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t c = 0; c < matrix.cols; ++c) {
      const int64_t offset = slot.offset_bytes + (r * slot.stride + c) * bytes;
      LOCKSTEP_CHECK(offset + bytes <= static_cast<int64_t>(arena_.size()));
      const uint16_t half = float_to_bf16(matrix.at(r, c));
      const void* from = slot.dtype == DType::kBF16 ? static_cast<const void*>(&half)
                                                    : static_cast<const void*>(&matrix.at(r, c));
      std::memcpy(arena_.data() + offset, from, bytes);
    }
  }
}

void Machine::run_step(const Step& step) {
  std::vector<Matrix> inputs;
  for (int value : step.inputs) inputs.push_back(load(value));
  if (step.op == Op::kTopCandidates) {
    logits_ = inputs[0];
    vocab_begin_ = step.attributes.top_candidates().vocab_begin();
    return;
  }
  if (step.op == Op::kColumns && in_arena_) return;  // The output is a view of the input's bytes.
  std::vector<const Matrix*> operands;
  for (const Matrix& input : inputs) operands.push_back(&input);
  for (int id : step.parameters) operands.push_back(&parameters_[id]);
  std::vector<Matrix> outputs;
  for (int value : step.outputs) outputs.emplace_back(rows_of(slots_[value]), slots_[value].cols);
  run_operator(step.op,
               {.inputs = operands,
                .attrs = bind_attributes(step.attributes),
                .tokens = sequence_->tokens,
                .output_rows = sequence_->outputs,
                .rope_length = sequence_->rope_length,
                .prefix_rows = sequence_->prefix_rows,
                .held_position = sequence_->held_position},
               outputs);
  for (size_t i = 0; i < outputs.size(); ++i) store(step.outputs[i], outputs[i]);
}

const Step* Machine::run() {
  for (; next_ < steps_.size(); ++next_) {
    const Step& step = steps_[next_];
    if (step.op == Op::kAllReduce || step.op == Op::kAllGather) return &step;
    run_step(step);
  }
  return nullptr;
}

Matrix all_reduce(const std::vector<Machine>& machines) {
  Matrix sum = machines[0].collective_input();
  for (size_t i = 1; i < machines.size(); ++i) {
    const Matrix addend = machines[i].collective_input();
    LOCKSTEP_CHECK(addend.rows == sum.rows && addend.cols == sum.cols);
    for (size_t k = 0; k < sum.data.size(); ++k) sum.data[k] += addend.data[k];
  }
  return sum;
}

Matrix all_gather(const std::vector<Machine>& machines, const program::GatherAttrs& gather) {
  LOCKSTEP_CHECK(gather.boundaries_size() == static_cast<int>(machines.size()) + 1);
  Matrix all(machines[0].collective_input().rows, *gather.boundaries().rbegin());
  for (size_t i = 0; i < machines.size(); ++i) {
    const Matrix own = machines[i].collective_input();
    const int64_t begin = gather.boundaries(static_cast<int>(i));
    LOCKSTEP_CHECK(own.cols == gather.boundaries(static_cast<int>(i) + 1) - begin);
    for (int64_t r = 0; r < own.rows; ++r) {
      for (int64_t c = 0; c < own.cols; ++c) all.at(r, begin + c) = own.at(r, c);
    }
  }
  return all;
}

Logits collect(const std::vector<Machine>& machines, size_t outputs) {
  Logits logits(outputs);
  for (const Machine& machine : machines) {
    const Matrix& slice = machine.logits();
    LOCKSTEP_CHECK(slice.rows == static_cast<int64_t>(outputs));
    for (size_t i = 0; i < outputs; ++i) {
      LOCKSTEP_CHECK(slice.cols == 0 ||
                     machine.vocab_begin() == static_cast<int64_t>(logits[i].size()));
      for (int64_t c = 0; c < slice.cols; ++c) {
        logits[i].push_back(slice.at(static_cast<int64_t>(i), c));
      }
    }
  }
  return logits;
}

template <typename Source>
Logits run_all(std::span<const Source> ranks, const Tensors& tensors, const Sequence& sequence) {
  std::vector<Machine> machines;
  for (const Source& source : ranks) machines.emplace_back(source, tensors).begin(sequence);
  for (;;) {
    std::vector<const Step*> at;
    at.reserve(machines.size());
    for (Machine& machine : machines) at.push_back(machine.run());
    const Step* first = at[0];
    for (const Step* other : at) {
      LOCKSTEP_CHECK((first == nullptr) == (other == nullptr));
      LOCKSTEP_CHECK(first == nullptr || first->op == other->op);
    }
    if (first == nullptr) break;
    const Matrix result = first->op == Op::kAllReduce
                              ? all_reduce(machines)
                              : all_gather(machines, first->attributes.gather());
    for (Machine& machine : machines) machine.finish_collective(result);
  }
  return collect(machines, sequence.outputs.size());
}

}  // namespace

Logits interpret(std::span<const Graph> ranks, const Tensors& tensors, const Sequence& sequence) {
  return run_all(ranks, tensors, sequence);
}

Logits interpret(std::span<const program::Program> ranks, const Tensors& tensors,
                 const Sequence& sequence) {
  return run_all(ranks, tensors, sequence);
}

std::map<std::string, Tensor> interpret_values(const Graph& model, const Tensors& tensors,
                                               const Sequence& sequence) {
  Machine machine(model, tensors);
  machine.begin(sequence);
  LOCKSTEP_CHECK(machine.run() == nullptr);
  std::map<std::string, Tensor> values;
  for (size_t i = 0; i < model.values().size(); ++i) {
    const Matrix matrix = machine.value(static_cast<int>(i));
    Tensor& tensor = values[model.values()[i].name];
    tensor.shape = {matrix.rows, matrix.cols};
    tensor.data.assign(matrix.data.begin(), matrix.data.end());
  }
  return values;
}

}  // namespace lockstep::naive
