// SPDX-License-Identifier: Apache-2.0
// Where a worker's weights come from: the seam between a program's recipes and a checkpoint, or
// random numbers in its place.
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

// A matrix as a file has it.
struct StoredRows {
  const File* file = nullptr;  // The source's.
  int64_t offset = 0;          // Of its first element, in bytes.
  int64_t stride = 0;          // Elements from one row to the next.
};

// Whether the piece's source is in the checkpoint, in the shape that the piece expects and in a
// type that can be read; codes of any kind pass: WeightSource::check has theirs.
absl::Status check_source(const Checkpoint& checkpoint, const program::Piece& piece);

// Const members may be called from several threads at once.
class WeightSource {
 public:
  explicit WeightSource(Checkpoint checkpoint) : from_(std::move(checkpoint)) {}
  explicit WeightSource(RandomWeights random) : from_(random) {}

  // Whether every piece's source is there, in the shape that the program expects and in a type that
  // can be read, and the pieces make up the weight. Codes are read in the kind that they were
  // stored in, and in no other. To be called for all weights before memory is allocated for any.
  // Random weights have every source.
  absl::Status check(const program::Weight& weight) const;

  // The same as Checkpoint's; for random weights their seed.
  absl::StatusOr<std::string> stamp() const;
  absl::StatusOr<std::string> contents(const SignOfLife& alive = {}) const;
  absl::StatusOr<std::string> written_at() const;

  // Where plain rows of the weight, which passed check(), are in a file in the weight's own type;
  // else why they do not.
  absl::StatusOr<StoredRows> stored_rows(const program::Weight& weight) const;

  // What read_rows of all rows takes from the checkpoint, for progress: 4 bytes an element where
  // weights are random. The weight need not have passed check().
  absl::StatusOr<int64_t> bytes_to_read(const program::Weight& weight) const;

  // Rows [row_begin, row_end) of a weight that passed check(), as float32:
  // out[(row - row_begin) * out_stride + col]. A transposed piece visits every row of its source
  // however few rows are asked for: ask for hundreds at once where a weight has one. Of columns
  // that alternate with others all are read.
  absl::Status read_rows(const program::Weight& weight, int64_t row_begin, int64_t row_end,
                         float* out, int64_t out_stride) const;

  // The same rows of a weight in a quantized kind, as its codes: those of a checkpoint that has
  // them, else rounded from what read_rows gives. `floats` has room for the rows, as float32.
  absl::Status read_codes(const program::Weight& weight, int64_t row_begin, int64_t row_end,
                          float* floats, const QuantizedRows& out) const;

 private:
  // What a part adds, with what is done to its numbers, as if its rows followed each other.
  absl::Status read_part(const program::Weight& weight, const Part& part, float* out,
                         int64_t out_stride) const;
  // A rectangle of the piece's source as stored, transposed if the piece is.
  absl::Status read(const program::Weight& weight, const program::Piece& piece,
                    const Rectangle& source, float* out, int64_t out_stride) const;
  // `columns` counts them kind by kind.
  absl::Status read_interleaved(const program::Weight& weight, const program::Piece& piece,
                                const Rectangle& columns, float* out, int64_t out_stride) const;

  std::variant<Checkpoint, RandomWeights> from_;
};

// Whether any piece is transposed, see read_rows.
bool has_transposed_piece(const program::Weight& weight);

}  // namespace lockstep
