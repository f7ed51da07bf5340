// SPDX-License-Identifier: Apache-2.0
// Checks the independent parts of a Program: header, limits, values, weights, states.
// validate_instructions.cc checks the instructions that use them.
#include "proto/validate/validate.h"

#include <cmath>
#include <optional>
#include <string>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "proto/row_domains.h"
#include "proto/validate/validate_parts.h"

namespace lockstep {
namespace {

using program::Program;

absl::Status check_range(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return invalid_argument("program: {} must be {} to {}, found {}", name, min, max, value);
}

absl::Status check_header(const Program& program) {
  RETURN_IF_ERROR(check_range("version", program.version(), kProgramVersion, kProgramVersion));
  RETURN_IF_ERROR(check_range("ranks", program.ranks(), 1, kMaxRanks));
  RETURN_IF_ERROR(check_range("rank", program.rank(), 0, program.ranks() - 1));
  RETURN_IF_ERROR(check_range("vocab", program.vocab(), 1, 1 << 24));
  RETURN_IF_ERROR(check_range("hidden", program.hidden(), 1, 1 << 20));
  RETURN_IF_ERROR(check_range("arena_bytes", program.arena_bytes(), 0, kMaxArenaBytes));
  RETURN_IF_ERROR(check_range("shared_bytes", program.shared_bytes(), 0, kMaxArenaBytes));
  if (program.strategy() != "gather" && program.strategy() != "reduce") {
    return invalid_argument("program: strategy must be gather or reduce, found '{}'",
                            printable(program.strategy()));
  }
  if (program.numeric_class().empty()) {
    return invalid_argument("program: numeric_class must name a kernel set, found nothing");
  }
  return absl::OkStatus();
}

absl::Status check_limits(const program::Limits& limits) {
  RETURN_IF_ERROR(check_range("limits.rows", limits.rows(), 1, kMaxStepRows));
  RETURN_IF_ERROR(check_range("limits.outputs", limits.outputs(), 1, kMaxStepRows));
  RETURN_IF_ERROR(check_range("limits.sequences", limits.sequences(), 1, kMaxStepRows));
  RETURN_IF_ERROR(check_range("limits.context", limits.context(), 1, kMaxContext));
  if (!fits_pages(limits.page_tokens())) {
    return invalid_argument("program: limits.page_tokens must be 16, 32 or 64, found {}",
                            limits.page_tokens());
  }
  return absl::OkStatus();
}

absl::Status check_value(const Program& program, int index) {
  const program::Value& value = program.values(index);
  const auto fail = [&](const char* field, const char* wanted, int64_t found) {
    return invalid_argument("program value {} ({}): {} must be {}, found {}", index,
                            printable(value.name()), field, wanted, found);
  };
  if (value.dtype() != program::F32 && value.dtype() != program::BF16 &&
      value.dtype() != program::I32 && value.dtype() != program::A8 &&
      value.dtype() != program::A8P) {
    return fail("dtype", "float32, bfloat16, int32, a8 or a8p", value.dtype());
  }
  if (value.rows() < 0 || value.rows() >= program.row_domains_size()) {
    return fail("rows", "a row domain of the program", value.rows());
  }
  if (value.cols() < 0 || value.cols() > kMaxColumns)
    return fail("cols", "0 to 2^31", value.cols());
  if (value.stride() < value.cols() || value.stride() > kMaxColumns) {
    return fail("stride", "cols to 2^31", value.stride());
  }
  const auto dtype = static_cast<DType>(value.dtype());
  if (value.stride() % group_elements(dtype) != 0) {
    return fail("stride", "whole groups of 32 columns", value.stride());
  }
  // A view of columns may begin at any element; all other values begin on a cache line.
  const int64_t element = is_rounded(dtype) ? int64_t{alignof(RoundedGroup)} : group_bytes(dtype);
  const int64_t alignment = value.stride() > value.cols() ? element : 64;
  if (value.offset_bytes() < 0 || value.offset_bytes() % alignment != 0) {
    return fail("offset_bytes", "a multiple of 64 (of an element in a view)", value.offset_bytes());
  }
  int64_t end = 0;
  if (__builtin_add_overflow(value.offset_bytes(), extent_bytes(program, value), &end) ||
      end > (value.shared() ? program.shared_bytes() : program.arena_bytes())) {
    return fail("offset_bytes", "such that all rows end within arena_bytes or shared_bytes",
                value.offset_bytes());
  }
  return absl::OkStatus();
}

// A row vector (BIAS, NORM) may be one-dimensional in the checkpoint.
bool is_row(program::Role role) { return role == program::BIAS || role == program::NORM; }

// The first row of the matrix in a stack that contains the piece's first row.
int64_t matrix_begin(const program::Piece& piece) {
  const int dims = piece.source_shape_size();
  const int64_t height = dims == 3 ? piece.source_shape(1) : 0;
  return height == 0 ? 0 : piece.row_begin() / height * height;
}

// Checks a tensor of any shape that is used as one row.
absl::Status check_flat(const program::Weight& weight, const program::Piece& piece) {
  const auto fail = [&](const char* field, const char* wanted) {
    return invalid_argument("program weight {}: piece {} of {} must be {}",
                            printable(weight.name()), field, printable(piece.source()), wanted);
  };
  if (!is_row(weight.role()) || piece.transpose()) return fail("flat", "of a row, not transposed");
  if (piece.source_shape_size() > 8) return fail("source_shape", "of at most 8 dimensions");
  int64_t elements = 1;
  for (const int64_t size : piece.source_shape()) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > kMaxColumns) {
      return fail("source_shape", "of 0 to 2^31 elements");
    }
  }
  if (piece.row_begin() != 0 || piece.row_end() != 1) return fail("rows", "row 0 alone");
  if (piece.col_begin() < 0 || piece.col_begin() > piece.col_end() || piece.col_end() > elements) {
    return fail("columns", "ascending and inside source_shape");
  }
  return absl::OkStatus();
}

absl::Status check_piece(const program::Weight& weight, const program::Piece& piece) {
  const auto fail = [&](const char* field, const char* wanted) {
    return invalid_argument("program weight {}: piece {} of {} must be {}",
                            printable(weight.name()), field, printable(piece.source()), wanted);
  };
  if (piece.source().empty()) return fail("source", "named");
  if (!std::isfinite(piece.plus()) || (piece.plus() != 0 && weight.role() != program::NORM)) {
    return fail("plus", "a finite number, and 0 except in a norm");
  }
  if (piece.flat()) return check_flat(weight, piece);
  const int dims = piece.source_shape_size();
  const int min_dims = is_row(weight.role()) ? 1 : 2;
  if (dims < min_dims || dims > min_dims + 1) {
    return fail("source_shape", "of two or three dimensions (that of a row: of one or two)");
  }
  for (const int64_t size : piece.source_shape()) {
    if (size < 0 || size > kMaxColumns) return fail("source_shape", "0 to 2^31 each");
  }
  const int64_t cols = piece.source_shape(dims - 1);
  const int64_t height = dims == 1 ? 1 : piece.source_shape(dims - 2);  // The rows of one matrix.
  const int64_t rows = dims == 3 ? piece.source_shape(0) * height : height;
  if (rows > kMaxColumns) return fail("source_shape", "of 0 to 2^31 rows, all matrices together");
  if (piece.row_begin() < 0 || piece.row_begin() > piece.row_end() || piece.row_end() > rows) {
    return fail("rows", "ascending and inside source_shape");
  }
  if (piece.col_begin() < 0 || piece.col_begin() > piece.col_end() || piece.col_end() > cols) {
    return fail("columns", "ascending and inside source_shape");
  }
  const int64_t kinds = piece.interleaved();
  if (kinds < 0 || kinds > kMaxColumns || (kinds > 0 && cols % kinds != 0)) {
    return fail("interleaved", "0 or a divisor of the source's columns");
  }
  const bool whole_rows = !piece.transpose() && piece.col_begin() == 0 && piece.col_end() == cols;
  if (piece.unit_rows() && (!whole_rows || is_row(weight.role()) || kinds > 0)) {
    return fail("unit_rows", "false except for whole rows of a matrix");
  }
  if (!piece.transpose()) return absl::OkStatus();
  if (is_row(weight.role())) return fail("transpose", "false for a row");
  const bool in_one = piece.row_end() - matrix_begin(piece) <= height;
  if (in_one) return absl::OkStatus();
  return fail("rows", "within one matrix of the stack, because the piece is transposed");
}

DType dtype_of(const program::Weight& weight) { return static_cast<DType>(weight.dtype()); }

std::optional<Quantization> quantized(const program::Weight& weight) {
  return quantization(dtype_of(weight));
}

// Above this, a sum of int8 products may not fit in 32 bits.
constexpr int64_t kMaxCodes = int64_t{1} << 17;

// Whether every group is either inside or outside of the piece. Groups are parts of the source's
// rows, or of its columns if the piece is transposed.
bool cuts_no_group(const Quantization& kind, const program::Piece& piece) {
  const bool transposed = piece.transpose();
  const int64_t before = transposed ? matrix_begin(piece) : 0;
  const int64_t begin = transposed ? piece.row_begin() - before : piece.col_begin();
  const int64_t end = transposed ? piece.row_end() - before : piece.col_end();
  const int64_t all = piece.source_shape(piece.source_shape_size() - (transposed ? 2 : 1));
  if (kind.group == 0) return begin == 0 && end == all;
  return begin % kind.group == 0 && (end % kind.group == 0 || end == all);
}

absl::Status check_weight_type(const program::Weight& weight) {
  const auto fail = [&](const char* field, const char* wanted, int64_t found) {
    return invalid_argument("program weight {}: {} must be {}, found {}", printable(weight.name()),
                            field, wanted, found);
  };
  if (!program::Role_IsValid(weight.role()) || weight.role() == program::NO_ROLE) {
    return fail("role", "a known role", weight.role());
  }
  const bool row = is_row(weight.role());
  const bool half = weight.dtype() == program::F16 && weight.role() == program::EMBEDDING;
  const bool matrix = weight.dtype() == program::BF16 || half || quantized(weight);
  const bool exact = row || weight.role() == program::ROUTER || weight.role() == program::POSITIONS;
  if (weight.dtype() != program::F32 && (exact || !matrix)) {
    return fail("dtype",
                exact ? "float32" : "float32, bfloat16 or quantized (an embedding: or float16)",
                weight.dtype());
  }
  if (weight.rows() < 0 || weight.rows() > kMaxColumns) {
    return fail("rows", "0 to 2^31", weight.rows());
  }
  if (row && weight.rows() != 1) return fail("rows", "1 for a row", weight.rows());
  if (weight.cols() < 0 || weight.cols() > kMaxColumns) {
    return fail("cols", "0 to 2^31", weight.cols());
  }
  const int64_t all = row ? weight.cols() : weight.rows();
  if (weight.matrices() < 0 || weight.matrices() > kMaxExperts || all % matrices_of(weight) != 0) {
    return fail("matrices", "0 to 1024 and of equal rows (of a bias: columns)", weight.matrices());
  }
  if (weight.paired() && (all % 2 != 0 || weight.matrices() > 1)) {
    return fail("rows", "pairs of one matrix, as the weight is paired (of a bias: columns)", all);
  }
  if (const auto kind = quantized(weight); kind && kind->group == 0 && weight.cols() > kMaxCodes) {
    return fail("cols", "0 to 131072 where a row has one scale", weight.cols());
  }
  if (weight.rows() * weight.cols() > kMaxArenaBytes) {
    return fail("rows", "fewer: all elements are at most 2^46", weight.rows());
  }
  return absl::OkStatus();
}

// Pieces are stacked vertically, those of a row side by side.
absl::Status check_weight(const program::Weight& weight) {
  RETURN_IF_ERROR(check_weight_type(weight));
  const bool row = is_row(weight.role());
  int64_t filled = 0;
  for (const program::Piece& piece : weight.pieces()) {
    RETURN_IF_ERROR(check_piece(weight, piece));
    if (const auto kind = quantized(weight); kind && !cuts_no_group(*kind, piece)) {
      return invalid_argument("program weight {}: piece columns of {} must be whole groups of {}",
                              printable(weight.name()), printable(piece.source()),
                              dtype_name(dtype_of(weight)));
    }
    int64_t rows = piece.row_end() - piece.row_begin();
    int64_t cols = piece.col_end() - piece.col_begin();
    if (piece.transpose()) std::swap(rows, cols);
    const int64_t across = row ? rows : cols;
    if (across != (row ? 1 : weight.cols())) {
      return invalid_argument("program weight {}: piece of {} must have {} {}, found {}",
                              printable(weight.name()), printable(piece.source()),
                              row ? 1 : weight.cols(), row ? "rows" : "columns", across);
    }
    filled += row ? cols : rows;
    if (filled > kMaxColumns) break;
  }
  const int64_t wanted = row ? weight.cols() : weight.rows();
  if (filled != wanted) {
    return invalid_argument("program weight {}: pieces must add up to {} {}, found {}",
                            printable(weight.name()), wanted, row ? "columns" : "rows", filled);
  }
  return absl::OkStatus();
}

constexpr int64_t kMaxBlockElements = int64_t{1} << 32;

absl::Status check_state(const program::State& state, int index) {
  const auto fail = [&](const char* field, const char* wanted, int64_t found) {
    return invalid_argument("program state {} ({}): {} must be {}, found {}", index,
                            printable(state.name()), field, wanted, found);
  };
  if (state.has_block()) {
    const program::Block& block = state.block();
    if (state.dtype() != program::F32) return fail("dtype", "float32", state.dtype());
    if (block.rows() < 0 || block.rows() > kMaxColumns)
      return fail("rows", "0 to 2^31", block.rows());
    if (block.cols() < 0 || block.cols() > kMaxColumns)
      return fail("cols", "0 to 2^31", block.cols());
    const bool few = block.cols() == 0 || block.rows() <= kMaxBlockElements / block.cols();
    return few ? absl::OkStatus()
               : fail("rows", "fewer: a block has at most 2^32 elements", block.rows());
  }
  if (state.dtype() != program::F32 && state.dtype() != program::BF16 &&
      state.dtype() != program::I8) {
    return fail("dtype", "float32, bfloat16 or int8", state.dtype());
  }
  if (!state.has_kv()) return fail("kind", "KV pages or a block", state.kind_case());
  const program::KvPages& kv = state.kv();
  if (kv.kv_heads() < 0 || kv.kv_heads() > 4096)
    return fail("kv_heads", "0 to 4096", kv.kv_heads());
  if (kv.k_dim() < 1 || kv.k_dim() > 4096) return fail("k_dim", "1 to 4096", kv.k_dim());
  if (kv.v_dim() < 0 || kv.v_dim() > 4096) return fail("v_dim", "0 to 4096", kv.v_dim());
  return absl::OkStatus();
}

// The first two domains are fixed: kernels and steps count rows by them.
absl::Status check_row_domains(const Program& program) {
  RETURN_IF_ERROR(check_range("number of row_domains", program.row_domains_size(), 2, 64));
  for (int i = 0; i < program.row_domains_size(); ++i) {
    const program::RowDomain& domain = program.row_domains(i);
    if (!program::Rows_IsValid(domain.of()) || (i < 2 && domain.of() != i)) {
      return invalid_argument("program row domain {} ({}): of must be {}, found {}", i,
                              printable(domain.name()),
                              i == 0   ? "tokens"
                              : i == 1 ? "outputs"
                                       : "tokens or outputs",
                              static_cast<int>(domain.of()));
    }
    RETURN_IF_ERROR(
        check_range("rows_each of a row domain", domain.rows_each(), 1, i < 2 ? 1 : kMaxRowsEach));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t column_bytes(program::DType dtype, int64_t columns) {
  return row_bytes(static_cast<DType>(dtype), columns);
}

int64_t matrices_of(const program::Weight& weight) {
  return weight.matrices() == 0 ? 1 : weight.matrices();
}

bool has_blocks(const Program& program) {
  return std::any_of(program.states().begin(), program.states().end(),
                     [](const program::State& state) { return state.has_block(); });
}

int64_t max_rows(const Program& program, const program::Value& value) {
  return max_rows(program.row_domains(value.rows()), program.limits());
}

int64_t extent_bytes(const Program& program, const program::Value& value) {
  if (value.cols() == 0) return 0;
  const int64_t rows = max_rows(program, value);
  return (rows - 1) * column_bytes(value.dtype(), value.stride()) +
         column_bytes(value.dtype(), value.cols());
}

absl::Status validate(const Program& program) {
  RETURN_IF_ERROR(check_header(program));
  RETURN_IF_ERROR(check_limits(program.limits()));
  RETURN_IF_ERROR(check_row_domains(program));
  for (int i = 0; i < program.values_size(); ++i) RETURN_IF_ERROR(check_value(program, i));
  for (const program::Weight& weight : program.weights()) RETURN_IF_ERROR(check_weight(weight));
  RETURN_IF_ERROR(check_range("number of states", program.states_size(), 0, 1 << 16));
  for (int i = 0; i < program.states_size(); ++i) {
    RETURN_IF_ERROR(check_state(program.states(i), i));
  }
  RETURN_IF_ERROR(check_instructions(program));
  return check_arena(program);
}

}  // namespace lockstep
