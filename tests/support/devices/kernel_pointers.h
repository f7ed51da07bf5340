// SPDX-License-Identifier: Apache-2.0
// Visits every address that a kernel gets. The structured bindings here list all fields of each
// struct. A new field does not compile until it is listed, so no test's device overlooks it.
#pragma once

#include "operators/attribute_fields.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// Calls visit(name, address) for each address in a kernel's arguments, except those in the step. An
// address may be null.
template <typename Visit>
void visit_pointers(const KernelArgs& args, const Visit& visit) {
  const auto& [in, out, attributes, state, step, parallel, scratch, queue] = args;
  for (const TensorView& view : in) {
    const auto& [data, rows, cols, stride, dtype] = view;
    visit("an input", data);
  }
  for (const TensorView& view : out) visit("an output", view.data);
  OperatorAttrs attrs = attributes;
  visit_lists(attrs, [&](const auto& list) { visit("a list of the attributes", list.data); });
  const auto& [data, page_bytes, pages, page_tokens, dtype] = state;
  visit("the state", data);
  visit("the scratch", scratch);
}

// The arrays of a step.
template <typename Visit>
void visit_pointers(const StepView& step, const Visit& visit) {
  const auto& [rows, tokens, positions, sequence_of_row, sequences, sequence_count, output_rows,
               outputs, output_count, embeddings, longest] = step;
  visit("tokens", tokens);
  visit("positions", positions);
  visit("sequence_of_row", sequence_of_row);
  visit("sequences", sequences);
  visit("output_rows", output_rows);
  visit("outputs", outputs);
  visit("embeddings", embeddings);
}

// The addresses that a step's arrays contain. This thread must be able to read the arrays.
template <typename Visit>
void visit_pointers_in_arrays(const StepView& step, const Visit& visit) {
  for (int64_t i = 0; i < step.sequence_count; ++i) {
    const auto& [first_row, rows, first_position, pages, slot, rope_length, prefix_rows,
                 held_position] = step.sequences[i];
    visit("pages", pages);
  }
  for (int64_t i = 0; i < step.output_count; ++i) {
    const auto& [temperature, seed, position, edits, edit_count, mask, top, top_count, top_found,
                 raw_top, raw_top_count, raw_top_found, want_noisy, noisy, slices_done, edited_sums,
                 raw_sums, logits] = step.outputs[i];
    visit("edits", edits);
    visit("mask", mask);
    visit("top", top);
    visit("raw_top", raw_top);
    visit("edited_sums", edited_sums);
    visit("raw_sums", raw_sums);
    visit("logits", logits);
  }
}

}  // namespace lockstep
