// SPDX-License-Identifier: Apache-2.0
// A worker's source of weights: a checkpoint, from which a program's recipes select, or random
// numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/random_weights.h"
#include "proto/program.pb.h"

namespace lockstep {

struct Part;  // recipe.h

// The place of a matrix in a file.
struct StoredRows {
  const File* file = nullptr;  // The source's file.
  int64_t offset = 0;          // The byte offset of the matrix in the file.
  int64_t stride = 0;          // Elements from one row to the next.
};

// Checks that the piece's source is in the checkpoint, in the expected shape and a readable type.
// Codes of any kind pass; WeightSource::check() checks their kind.
absl::Status check_source(const Checkpoint& checkpoint, const program::Piece& piece);

// Const members are thread-safe.
class WeightSource {
 public:
  explicit WeightSource(Checkpoint checkpoint) : from_(std::move(checkpoint)) {}
  explicit WeightSource(RandomWeights random) : from_(random) {}

  // Checks that every piece's source exists, has the shape that the program expects and a readable
  // type, and that the pieces make up the weight. Codes can only be read in their stored kind. Call
  // check() for all weights before you allocate memory for any. Random weights have every source.
  absl::Status check(const program::Weight& weight) const;

  // Checkpoint::stamp(); for random weights their seed.
  absl::StatusOr<std::string> stamp() const;
  absl::StatusOr<std::string> contents(const ProgressCallback& alive = {}) const;
  absl::StatusOr<std::string> written_at() const;

  // Locates in a file the rows of a weight that passed check(). An error unless the file stores
  // these rows as they are, in the weight's own type.
  absl::StatusOr<StoredRows> stored_rows(const program::Weight& weight) const;

  // The bytes that read_rows() reads from the checkpoint for all rows, for progress; 4 bytes per
  // element for random weights. The weight need not have passed check().
  absl::StatusOr<int64_t> bytes_to_read(const program::Weight& weight) const;

  // Reads rows [row_begin, row_end) of a weight that passed check(), as float32: out[(row -
  // row_begin) * out_stride + col]. Each call reads every row of a transposed piece's source:
  // request hundreds of rows at once if a weight has a transposed piece. Interleaved columns are
  // read together with the other columns between them.
  absl::Status read_rows(const program::Weight& weight, int64_t row_begin, int64_t row_end,
                         float* out, int64_t out_stride) const;

  // The same rows of a weight in a quantized kind, as codes: from the checkpoint if it has codes,
  // else quantized from read_rows. `floats` is scratch for the rows as float32.
  absl::Status read_codes(const program::Weight& weight, int64_t row_begin, int64_t row_end,
                          float* floats, const QuantizedRows& out) const;

 private:
  // Reads a part and applies `plus` and `unit_rows`; rows are `out_stride` apart.
  absl::Status read_part(const program::Weight& weight, const Part& part, float* out,
                         int64_t out_stride) const;
  // Reads a rectangle of the piece's source as stored, transposed if the piece is.
  absl::Status read(const program::Weight& weight, const program::Piece& piece,
                    const Rectangle& source, float* out, int64_t out_stride) const;
  // In the rectangle `columns`, columns are numbered kind by kind (Piece.interleaved).
  absl::Status read_interleaved(const program::Weight& weight, const program::Piece& piece,
                                const Rectangle& columns, float* out, int64_t out_stride) const;

  std::variant<Checkpoint, RandomWeights> from_;
};

// Whether any piece is transposed; see read_rows.
bool has_transposed_piece(const program::Weight& weight);

}  // namespace lockstep
