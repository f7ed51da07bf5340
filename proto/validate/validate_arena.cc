// SPDX-License-Identifier: Apache-2.0
// Checks the memory plan of a Program: an instruction must not overwrite values that are still
// read. A wrong plan gives wrong tokens and no error, so the check is worth its cost. Memory that
// ranks share is kept until the collective after the last read, where the ranks meet.
#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "operators/schema/schema.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_parts.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;
using program::Value;

constexpr int kForever = std::numeric_limits<int>::max();

const OperatorSchema& schema_of(const Instruction& instruction) {
  return lockstep::schema_of(static_cast<Op>(instruction.op()));
}

std::string_view name_of(const Instruction& instruction) {
  return op_name(static_cast<Op>(instruction.op()));
}

// The instruction that reads each value last; -1: none. Logits are kept after the step.
std::vector<int> last_reads(const Program& program) {
  std::vector<int> last(program.values_size(), -1);
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& instruction = program.instructions(i);
    for (const program::Operand& operand : instruction.inputs()) {
      if (operand.kind_case() != program::Operand::kValue) continue;
      int& read = last[operand.value()];
      if (read != kForever) read = instruction.op() == program::TOP_CANDIDATES ? kForever : i;
    }
  }
  return last;
}

// The instructions at which ranks meet, ascending.
std::vector<int> collectives_of(const Program& program) {
  std::vector<int> collectives;
  for (int i = 0; i < program.instructions_size(); ++i) {
    if (schema_of(program.instructions(i)).run_by == RunBy::kCollective) collectives.push_back(i);
  }
  return collectives;
}

// Whether two values share a byte. Two sets of columns of the same rows interleave without sharing.
bool overlap(const Program& program, const Value& a, const Value& b) {
  const int64_t a_bytes = extent_bytes(program, a);
  const int64_t b_bytes = extent_bytes(program, b);
  if (a_bytes == 0 || b_bytes == 0 || a.shared() != b.shared()) return false;
  if (a.offset_bytes() + a_bytes <= b.offset_bytes()) return false;
  if (b.offset_bytes() + b_bytes <= a.offset_bytes()) return false;
  const int64_t stride = column_bytes(a.dtype(), a.stride());
  if (stride != column_bytes(b.dtype(), b.stride())) return true;
  int64_t shift = (b.offset_bytes() - a.offset_bytes()) % stride;
  if (shift < 0) shift += stride;
  return shift < column_bytes(a.dtype(), a.cols()) ||
         shift + column_bytes(b.dtype(), b.cols()) > stride;
}

// Whether `output` may be written over `input`, which this instruction reads for the last time.
bool may_share(const Program& program, const Instruction& instruction, const Value& input,
               const Value& output) {
  if (input.stride() != output.stride() || input.shared() != output.shared()) return false;
  if (instruction.op() == program::ALL_GATHER) {
    const int64_t begin = instruction.attributes().gather().boundaries(program.rank());
    return input.offset_bytes() == output.offset_bytes() + column_bytes(output.dtype(), begin);
  }
  return schema_of(instruction).in_place && input.offset_bytes() == output.offset_bytes() &&
         input.dtype() == output.dtype();
}

// Whether a value is this rank's part of an all_gather's result and is computed in the result's
// memory. The operator that computes it then writes shared memory, like all_gather.
bool is_part(const Program& program, int value) {
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.op() != program::ALL_GATHER || instruction.inputs(0).value() != value) continue;
    const Value& whole = program.values(instruction.outputs(0));
    if (may_share(program, instruction, program.values(value), whole)) return true;
  }
  return false;
}

// A view must be in the memory of its input, at the columns that it shows.
absl::Status check_view(const Program& program, int index) {
  const Instruction& instruction = program.instructions(index);
  const Value& x = program.values(instruction.inputs(0).value());
  const Value& view = program.values(instruction.outputs(0));
  const int64_t begin = instruction.attributes().columns().begin();
  Finding finding;
  if (finding.equal("shared of the view", view.shared(), x.shared()) &&
      finding.equal("stride of the view", view.stride(), x.stride()) &&
      finding.equal("offset_bytes of the view", view.offset_bytes(),
                    x.offset_bytes() + column_bytes(x.dtype(), begin))) {
    return absl::OkStatus();
  }
  return invalid_argument("program instruction {} ({}): {}", index, name_of(instruction),
                          finding.text);
}

absl::Status check_shared(const Program& program, int index, int value, int first_collective) {
  const Instruction& instruction = program.instructions(index);
  const auto fail = [&](const char* wanted) {
    return invalid_argument("program instruction {} ({}): value {} ({}) is shared: it must be {}",
                            index, name_of(instruction), value,
                            printable(program.values(value).name()), wanted);
  };
  if (schema_of(instruction).run_by == RunBy::kView) return absl::OkStatus();
  if (index <= first_collective) return fail("written after the first collective");
  const bool gathered = instruction.op() == program::ALL_GATHER || is_part(program, value);
  return gathered ? absl::OkStatus()
                  : fail("the result of all_gather, or a part computed in the result's memory");
}

}  // namespace

absl::Status check_arena(const Program& program) {
  const std::vector<int> last = last_reads(program);
  const std::vector<int> collectives = collectives_of(program);
  const int first_collective = collectives.empty() ? kForever : collectives.front();
  std::vector<int> kept_until = last;
  std::vector<int> live;
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& instruction = program.instructions(i);
    const bool view = schema_of(instruction).run_by == RunBy::kView;
    if (view) RETURN_IF_ERROR(check_view(program, i));
    std::erase_if(live, [&](int value) { return kept_until[value] < i; });
    for (const int output : instruction.outputs()) {
      const Value& written = program.values(output);
      if (written.shared()) {
        RETURN_IF_ERROR(check_shared(program, i, output, first_collective));
        const int read = std::max(last[output], i);
        const auto met = std::upper_bound(collectives.begin(), collectives.end(), read);
        kept_until[output] = met == collectives.end() ? kForever : *met;
      }
      for (const int kept : live) {
        const Value& value = program.values(kept);
        if (view || !overlap(program, value, written)) continue;
        if (last[kept] == i && may_share(program, instruction, value, written)) continue;
        return invalid_argument(
            "program instruction {} ({}): offset_bytes of value {} ({}) must be clear of value {} "
            "({}), which is read later",
            i, name_of(instruction), output, printable(written.name()), kept,
            printable(value.name()));
      }
      live.push_back(output);
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep
