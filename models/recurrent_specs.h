// SPDX-License-Identifier: Apache-2.0
// What builders of recurrent operators take beside values and names.
#pragma once

#include <cstdint>

namespace lockstep {

// A convolution over time, of each column by itself: see program.ConvAttrs. Its weight is stored as
// [channels, 1, taps], of which the value's columns are those from `begin` on.
struct ConvSpec {
  int64_t taps = 0;
  bool bias = false;
  int64_t channels = 0;  // 0: as many as the value has columns.
  int64_t begin = 0;
};

// See program.RecurrenceAttrs. Each key head serves neighbouring value heads.
struct DeltaRuleSpec {
  int64_t heads = 0;
  int64_t key_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  float scale = 0;
  float eps = 0;
};

// See program.RecurrenceAttrs. Each key head serves neighbouring value heads.
struct RecurrenceSpec {
  int64_t heads = 0;
  int64_t key_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  bool out_before = false;
};

}  // namespace lockstep
