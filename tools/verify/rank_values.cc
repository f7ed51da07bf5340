// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/rank_values.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/numbers/dtype.h"
#include "base/numbers/float16.h"
#include "base/status.h"
#include "proto/row_domains.h"
#include "proto/step_values.h"
#include "tools/verify/prompt_step.h"

namespace lockstep {
namespace {

using program::Program;

// The end of the longest run of instructions that begins at `begin` and whose values fit one
// answer.
absl::StatusOr<int> window_end(std::span<const Program> programs, int begin, int end,
                               int64_t rows) {
  std::vector<int64_t> bytes(programs.size());
  for (int i = begin; i < end; ++i) {
    for (size_t rank = 0; rank < programs.size(); ++rank) {
      bytes[rank] += made_bytes(programs[rank], i, rows, rows);
      if (bytes[rank] <= kMaxValueBytes) continue;
      if (i > begin) return i;
      return invalid_argument(
          "{} rows make {} bytes in one instruction, the max is {}; use a smaller --prefill-chunk",
          rows, bytes[rank], kMaxValueBytes);
    }
  }
  return end;
}

void widen(const char* from, DType dtype, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) {
    if (dtype == DType::kBF16) {
      uint16_t bits = 0;
      std::memcpy(&bits, from + i * sizeof(bits), sizeof(bits));
      to[i] = bf16_to_float(bits);
    } else if (dtype == DType::kI32) {
      int32_t number = 0;
      std::memcpy(&number, from + i * sizeof(number), sizeof(number));
      to[i] = static_cast<float>(number);
    } else {
      std::memcpy(to + i, from + i * sizeof(float), sizeof(float));
    }
  }
}

// Reads one rank's answer to a step of `rows` rows.
class Reader {
 public:
  Reader(const Program& program, int64_t rows) : program_(program), rows_(rows) {
    makers_.resize(static_cast<size_t>(program.values_size()));
    for (int i = 0; i < program.instructions_size(); ++i) {
      for (const int output : program.instructions(i).outputs()) makers_[output] = i;
    }
  }

  absl::StatusOr<std::vector<RankValue>> read(const cluster::StepResult& result) {
    for (const cluster::StepValue& given : result.values()) {
      RETURN_IF_ERROR(take(given));
    }
    return std::move(values_);
  }

 private:
  absl::Status take(const cluster::StepValue& given) {
    if (given.value() < 0 || given.value() >= program_.values_size()) {
      return absl::InternalError(
          fmt::format("rank {}: there is no value {}", program_.rank(), given.value()));
    }
    const program::Value& value = program_.values(given.value());
    const auto dtype = static_cast<DType>(value.dtype());
    const int64_t rows = rows_in(program_.row_domains(value.rows()), rows_, rows_);
    const int64_t count = rows * value.cols();
    if (dtype_bytes(dtype) == 0 ||
        static_cast<int64_t>(given.rows().size()) != count * dtype_bytes(dtype)) {
      return absl::InternalError(fmt::format("rank {}: {}: must have {} elements, found {} bytes",
                                             program_.rank(), value.name(), count,
                                             given.rows().size()));
    }
    RankValue made{.instruction = makers_[given.value()],
                   .value = given.value(),
                   .rows = rows,
                   .cols = value.cols(),
                   .data = std::vector<float>(static_cast<size_t>(count))};
    widen(given.rows().data(), dtype, made.data.size(), made.data.data());
    values_.push_back(std::move(made));
    add_views(values_.size() - 1);
    return absl::OkStatus();
  }

  // Adds the views of a value, and the views of these views: a rank's answer contains no views.
  void add_views(size_t of) {
    for (const program::Instruction& instruction : program_.instructions()) {
      const bool view = instruction.op() == program::COLUMNS;
      if (!view || instruction.inputs(0).value() != values_[of].value) continue;
      const RankValue& whole = values_[of];
      const program::ColumnsAttrs& columns = instruction.attributes().columns();
      RankValue part{.instruction = whole.instruction,
                     .value = instruction.outputs(0),
                     .rows = whole.rows,
                     .cols = columns.end() - columns.begin(),
                     .data = {}};
      for (int64_t row = 0; row < whole.rows; ++row) {
        const float* from = whole.data.data() + row * whole.cols;
        part.data.insert(part.data.end(), from + columns.begin(), from + columns.end());
      }
      values_.push_back(std::move(part));
      add_views(values_.size() - 1);
    }
  }

  const Program& program_;
  const int64_t rows_;
  std::vector<int> makers_;  // By value.
  std::vector<RankValue> values_;
};

}  // namespace

absl::Status run_for_values(std::span<const Program> programs, std::span<const int32_t> prompt,
                            int64_t rows, Group& group,
                            const std::function<absl::Status(const RankValues&)>& take) {
  const int instructions = programs[0].instructions_size();
  for (const Program& program : programs) {
    if (program.instructions_size() != instructions) {
      return absl::InternalError(fmt::format("rank {} has {} instructions, rank 0 has {}",
                                             program.rank(), program.instructions_size(),
                                             instructions));
    }
  }
  const auto count = static_cast<int64_t>(prompt.size());
  const int64_t page_tokens = group.info().page_tokens;
  const auto pages = static_cast<int>((count + page_tokens - 1) / page_tokens);
  if (pages > group.info().pages) {
    return invalid_argument("the prompt needs {} KV pages, the max is {}", pages,
                            group.info().pages);
  }
  uint64_t number = 0;  // The number of the last step; 0: the null step.
  for (int begin = 0, end = 0; begin < instructions; begin = end) {
    ASSIGN_OR_RETURN(end, window_end(programs, begin, instructions, std::min(rows, count)));
    for (int64_t first = 0; first < count; first += rows) {
      RankValues made{.tokens = prompt.subspan(first, std::min(rows, count - first)),
                      .first_row = first,
                      .last = end == instructions,
                      .ranks = {},
                      .results = {}};
      cluster::Step step = prompt_step(prompt, first, std::ssize(made.tokens), group.info());
      step.set_step(++number);
      for (cluster::Output& output : *step.mutable_outputs()) output.set_top_count(1);
      step.mutable_values()->set_begin(begin);
      step.mutable_values()->set_end(end);
      ASSIGN_OR_RETURN(made.results, group.run(step));
      if (made.results.size() != programs.size()) {
        return absl::InternalError(fmt::format("must have answers of {} ranks, found {}",
                                               programs.size(), made.results.size()));
      }
      for (size_t rank = 0; rank < programs.size(); ++rank) {
        Reader reader(programs[rank], static_cast<int64_t>(made.tokens.size()));
        ASSIGN_OR_RETURN(std::vector<RankValue> values, reader.read(made.results[rank]));
        made.ranks.push_back(std::move(values));
      }
      RETURN_IF_ERROR(take(made));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep
