// SPDX-License-Identifier: Apache-2.0
// Matches recipes with tensors. A mismatch is the user's error and names both sides.
#include "checkpoint/weight_source.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "checkpoint/quantized_tensor.h"
#include "checkpoint/recipe.h"

namespace lockstep {
namespace {

std::vector<int64_t> shape_of(const program::Piece& piece) {
  return {piece.source_shape().begin(), piece.source_shape().end()};
}

DType kind_of(const program::Weight& weight) { return static_cast<DType>(weight.dtype()); }

// An error unless the weight can use this matrix of codes.
absl::Status check_codes(const Checkpoint& checkpoint, const program::Weight& weight,
                         const program::Piece& piece) {
  const std::string& name = piece.source();
  if (!quantization(kind_of(weight))) {
    return failed_precondition(
        "{}: quantized in the checkpoint, but {} was requested; run it in its own scheme",
        printable(name), dtype_name(kind_of(weight)));
  }
  const bool made = piece.transpose() || piece.interleaved() != 0 || piece.unit_rows();
  if (made || piece.source_shape_size() < 2) {
    return failed_precondition(
        "{}: must be stored in F32, BF16 or F16, because the model changes this matrix at load, "
        "found codes; quantize at start instead",
        printable(name));
  }
  return check_quantized(checkpoint, name, kind_of(weight), shape_of(piece));
}

// The tensor of a piece, checked for shape and type.
absl::StatusOr<const TensorInfo*> source_of(const Checkpoint& checkpoint,
                                            const program::Weight& weight,
                                            const program::Piece& piece) {
  RETURN_IF_ERROR(check_source(checkpoint, piece));
  if (is_quantized(checkpoint, piece.source())) {
    RETURN_IF_ERROR(check_codes(checkpoint, weight, piece));
  }
  return checkpoint.find(piece.source());
}

// The same tensor as one row of all its elements.
TensorInfo as_row(TensorInfo tensor) {
  tensor.cols *= tensor.rows;
  tensor.rows = 1;
  return tensor;
}

// Random weights do not get here: nothing is added to their values.
void add_to_row(float plus, int64_t cols, float* row) {
  for (int64_t i = 0; i < cols; ++i) row[i] = plus + row[i];
}

// Scales a row to length 1; a row of zeros is unchanged.
void bring_to_length_one(int64_t cols, float* row) {
  double squares = 0;
  for (int64_t i = 0; i < cols; ++i) squares += double{row[i]} * row[i];
  const auto length = static_cast<float>(std::sqrt(squares));
  for (int64_t i = 0; length > 0 && i < cols; ++i) row[i] = row[i] / length;
}

// The memory from row `row` on.
QuantizedRows rows_from(const QuantizedRows& rows, const Quantization& kind, int64_t row,
                        int64_t cols) {
  const int64_t groups = row * group_count(kind, cols);
  return {rows.codes + row * cols, rows.scales + groups,
          kind.minimum ? rows.minima + groups : nullptr};
}

// Reads the codes of a part's rows; the first row goes to `out`.
absl::Status read_stored(const Checkpoint& checkpoint, const Part& part, const Quantization& kind,
                         const QuantizedRows& out) {
  const std::string& name = part.piece->source();
  if (part.row_step == 1) return read_quantized(checkpoint, name, kind, part.source, out);
  const int64_t rows = part.source.rows(), cols = part.source.cols();
  const int64_t groups = group_count(kind, cols);
  std::vector<int8_t> codes(static_cast<size_t>(rows * cols));
  std::vector<uint16_t> scales(static_cast<size_t>(rows * groups)), minima(scales.size());
  const QuantizedRows read{codes.data(), scales.data(), kind.minimum ? minima.data() : nullptr};
  RETURN_IF_ERROR(read_quantized(checkpoint, name, kind, part.source, read));
  for (int64_t row = 0; row < rows; ++row) {
    const QuantizedRows from = rows_from(read, kind, row, cols);
    const QuantizedRows to = rows_from(out, kind, row * part.row_step, cols);
    std::copy_n(from.codes, cols, to.codes);
    std::copy_n(from.scales, groups, to.scales);
    if (kind.minimum) std::copy_n(from.minima, groups, to.minima);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_source(const Checkpoint& checkpoint, const program::Piece& piece) {
  const TensorInfo* tensor = checkpoint.find(piece.source());
  if (tensor == nullptr) {
    return failed_precondition(
        "{} is missing from the checkpoint {}; does its config.json belong to these weights?",
        printable(piece.source()), checkpoint.folder().string());
  }
  if (is_quantized(checkpoint, piece.source())) return absl::OkStatus();
  if (tensor->shape != shape_of(piece)) {
    return failed_precondition(
        "{}: the config expects {}, the checkpoint has {}; does {} belong to these weights?",
        printable(piece.source()), shape_text(shape_of(piece)), shape_text(tensor->shape),
        (checkpoint.folder() / "config.json").string());
  }
  if (widens(tensor->dtype)) return absl::OkStatus();
  return failed_precondition(
      "{}: must be F32, BF16 or F16, the checkpoint has {}; convert it to one of them",
      printable(piece.source()), tensor->dtype_name);
}

absl::Status WeightSource::check(const program::Weight& weight) const {
  if (const auto* checkpoint = std::get_if<Checkpoint>(&from_)) {
    for (const program::Piece& piece : weight.pieces()) {
      RETURN_IF_ERROR(source_of(*checkpoint, weight, piece).status());
    }
  }
  return check_recipe(weight);
}

absl::StatusOr<std::string> WeightSource::stamp() const {
  if (const auto* random = std::get_if<RandomWeights>(&from_)) {
    return fmt::format("random {}", random->seed());
  }
  return std::get<Checkpoint>(from_).stamp();
}

absl::StatusOr<std::string> WeightSource::contents(const ProgressCallback& alive) const {
  const auto* checkpoint = std::get_if<Checkpoint>(&from_);
  return checkpoint == nullptr ? stamp() : checkpoint->contents(alive);
}

absl::StatusOr<std::string> WeightSource::written_at() const {
  const auto* checkpoint = std::get_if<Checkpoint>(&from_);
  return checkpoint == nullptr ? "" : checkpoint->written_at();
}

absl::StatusOr<StoredRows> WeightSource::stored_rows(const program::Weight& weight) const {
  const auto* checkpoint = std::get_if<Checkpoint>(&from_);
  if (checkpoint == nullptr) return failed_precondition("random weights are not in a file");
  if (weight.pieces_size() != 1 || weight.pieces(0).transpose()) {
    return failed_precondition("must be rows of one tensor, found {}",
                               weight.pieces_size() == 1 ? "its columns" : "several tensors");
  }
  const program::Piece& piece = weight.pieces(0);
  if (piece.plus() != 0 || piece.interleaved() != 0 || piece.unit_rows() || weight.paired()) {
    return failed_precondition("must be rows as stored, found rows computed from them");
  }
  ASSIGN_OR_RETURN(const TensorInfo* tensor, source_of(*checkpoint, weight, piece));
  if (tensor->dtype != kind_of(weight)) {
    return failed_precondition("must be {} in the file, found {}", dtype_name(kind_of(weight)),
                               tensor->dtype_name);
  }
  const int64_t element = dtype_bytes(tensor->dtype);
  const int64_t first = piece.row_begin() * tensor->cols + piece.col_begin();
  const StoredRows rows{.file = &checkpoint->file_of(*tensor),
                        .offset = tensor->begin + first * element,
                        .stride = tensor->cols};
  if (rows.offset % element == 0) return rows;
  return failed_precondition("must be aligned to {} bytes in {}, found byte {}", element,
                             rows.file->path().string(), rows.offset);
}

absl::StatusOr<int64_t> WeightSource::bytes_to_read(const program::Weight& weight) const {
  RETURN_IF_ERROR(check_recipe(weight));
  int64_t bytes = 0;
  for (const program::Piece& piece : weight.pieces()) {
    DType stored = DType::kF32;
    if (const auto* checkpoint = std::get_if<Checkpoint>(&from_)) {
      ASSIGN_OR_RETURN(const TensorInfo* tensor, source_of(*checkpoint, weight, piece));
      stored = is_quantized(*checkpoint, piece.source()) ? kind_of(weight) : tensor->dtype;
    }
    bytes += matrix_bytes(stored, piece.row_end() - piece.row_begin(),
                          piece.col_end() - piece.col_begin());
  }
  return bytes;
}

absl::Status WeightSource::read_rows(const program::Weight& weight, int64_t row_begin,
                                     int64_t row_end, float* out, int64_t out_stride) const {
  LOCKSTEP_CHECK(0 <= row_begin && row_begin <= row_end && row_end <= weight.rows());
  LOCKSTEP_CHECK(out_stride >= weight.cols());
  std::vector<float> row;
  for (const Part& part : parts_of(weight, row_begin, row_end)) {
    float* to = out + part.row * out_stride + part.col;
    if (part.col_step == 1) {
      RETURN_IF_ERROR(read_part(weight, part, to, out_stride * part.row_step));
      continue;
    }
    row.resize(static_cast<size_t>(part.source.cols()));
    RETURN_IF_ERROR(read_part(weight, part, row.data(), part.source.cols()));
    for (size_t i = 0; i < row.size(); ++i) to[static_cast<int64_t>(i) * part.col_step] = row[i];
  }
  return absl::OkStatus();
}

absl::Status WeightSource::read_part(const program::Weight& weight, const Part& part, float* out,
                                     int64_t out_stride) const {
  RETURN_IF_ERROR(part.piece->interleaved() > 1
                      ? read_interleaved(weight, *part.piece, part.source, out, out_stride)
                      : read(weight, *part.piece, part.source, out, out_stride));
  if (std::holds_alternative<RandomWeights>(from_)) return absl::OkStatus();  // Already final.
  if (part.piece->plus() != 0) add_to_row(part.piece->plus(), part.source.cols(), out);
  for (int64_t r = 0; part.piece->unit_rows() && r < part.source.rows(); ++r) {
    bring_to_length_one(part.source.cols(), out + r * out_stride);
  }
  return absl::OkStatus();
}

absl::Status WeightSource::read(const program::Weight& weight, const program::Piece& piece,
                                const Rectangle& source, float* out, int64_t out_stride) const {
  if (const auto* random = std::get_if<RandomWeights>(&from_)) {
    random->read(piece, weight.role(), source, out, out_stride);
    return absl::OkStatus();
  }
  const Checkpoint& checkpoint = std::get<Checkpoint>(from_);
  ASSIGN_OR_RETURN(const TensorInfo* tensor, source_of(checkpoint, weight, piece));
  const TensorInfo matrix = piece.flat() ? as_row(*tensor) : *tensor;
  return checkpoint.read(matrix, source, piece.transpose(), out, out_stride);
}

absl::Status WeightSource::read_interleaved(const program::Weight& weight,
                                            const program::Piece& piece, const Rectangle& columns,
                                            float* out, int64_t out_stride) const {
  const int64_t kinds = piece.interleaved();
  const int64_t each = piece.source_shape(piece.source_shape_size() - 1) / kinds;
  std::vector<float> all;
  for (int64_t begin = columns.col_begin; begin < columns.col_end;) {
    const int64_t kind = begin / each, end = std::min(columns.col_end, (kind + 1) * each);
    const int64_t first = begin % each * kinds + kind, count = end - begin;
    const Rectangle around = {columns.row_begin, columns.row_end, first,
                              first + (count - 1) * kinds + 1};
    const bool transposed = piece.transpose();
    const int64_t stride = transposed ? around.rows() : around.cols();
    all.resize(static_cast<size_t>(around.rows() * around.cols()));
    RETURN_IF_ERROR(read(weight, piece, around, all.data(), stride));
    const int64_t before = begin - columns.col_begin;
    for (int64_t row = 0; row < around.rows(); ++row) {
      for (int64_t i = 0; i < count; ++i) {
        float& to =
            transposed ? out[(before + i) * out_stride + row] : out[row * out_stride + before + i];
        to = transposed ? all[static_cast<size_t>(i * kinds * stride + row)]
                        : all[static_cast<size_t>(row * stride + i * kinds)];
      }
    }
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status WeightSource::read_codes(const program::Weight& weight, int64_t row_begin,
                                      int64_t row_end, float* floats,
                                      const QuantizedRows& out) const {
  const std::optional<Quantization> kind = quantization(kind_of(weight));
  LOCKSTEP_CHECK(kind.has_value());
  const auto* checkpoint = std::get_if<Checkpoint>(&from_);
  const auto stored = [&](const Part& part) {
    return checkpoint != nullptr && is_quantized(*checkpoint, part.piece->source());
  };
  const std::vector<Part> parts = parts_of(weight, row_begin, row_end);
  const int64_t cols = weight.cols();
  if (std::none_of(parts.begin(), parts.end(), stored)) {
    RETURN_IF_ERROR(read_rows(weight, row_begin, row_end, floats, cols));
    RETURN_IF_ERROR(check_finite(weight.name(), floats, (row_end - row_begin) * cols));
    quantize_rows(*kind, floats, cols, row_end - row_begin, cols, out);
    return absl::OkStatus();
  }
  for (const Part& part : parts) {
    if (!stored(part)) {
      return failed_precondition("{}: not quantized in the checkpoint, but other parts of {} are",
                                 printable(part.piece->source()), printable(weight.name()));
    }
    RETURN_IF_ERROR(source_of(*checkpoint, weight, *part.piece).status());
    RETURN_IF_ERROR(
        read_stored(*checkpoint, part, *kind, rows_from(out, *kind, part.row, weight.cols())));
  }
  return absl::OkStatus();
}

bool has_transposed_piece(const program::Weight& weight) {
  return std::any_of(weight.pieces().begin(), weight.pieces().end(),
                     [](const program::Piece& piece) { return piece.transpose(); });
}

}  // namespace lockstep
