// SPDX-License-Identifier: Apache-2.0
// An operator's attributes as checks, printers and kernels read them: a struct for each kind of
// operators/attributes.inc, e.g. AttentionAttrs, and OperatorAttrs, which holds one of any kind.
// They are bound from program.Attributes (proto/attributes.h).
#pragma once

#include <cstdint>

#include "operators/function.h"
#include "operators/limits.h"

namespace lockstep {

// The position that rope_table uses for a row: the same members as program.PositionRow.
enum class PositionRow : int32_t { kOwn = 0, kHeld = 1, kBlock = 2 };

// A view of a list's elements, which a protobuf message or a device's memory owns.
template <typename T>
struct ArrayView {
  using Element = T;
  const T* data = nullptr;
  int64_t size = 0;

  [[gnu::always_inline]] constexpr const T& operator[](int64_t index) const { return data[index]; }
  constexpr const T* begin() const { return data; }
  constexpr const T* end() const { return data + size; }
  [[gnu::always_inline]] constexpr bool empty() const { return size == 0; }
};

// The numbers equal those of program.Attributes' fields.
enum class AttrsKind : uint8_t {
  kNone = 0,
#define LOCKSTEP_ATTRS(number, kind, word) k##kind = number,
#include "operators/attributes.inc"
};

// All fields start as 0.
#define LOCKSTEP_ATTRS(number, kind, word) struct kind##Attrs {
#define LOCKSTEP_FIELD(type, name, min, max, meaning) type name = {};
#define LOCKSTEP_LIST(type, name, min, max, meaning) ArrayView<type> name = {};
#define LOCKSTEP_ATTRS_END \
  }                        \
  ;
#include "operators/attributes.inc"

// The attributes of one operator: attrs = NormAttrs{.eps = 1e-5f}, then attrs.norm().eps. Reading
// another kind than the stored one is our bug and ends the process.
class OperatorAttrs {
 public:
  constexpr OperatorAttrs() : none_() {}
  // Sets all fields to 0.
  explicit OperatorAttrs(AttrsKind kind) : none_() {
    switch (kind) {
      case AttrsKind::kNone:
        break;
#define LOCKSTEP_ATTRS(number, kind, word) \
  case AttrsKind::k##kind:                 \
    *this = kind##Attrs{};                 \
    break;
#include "operators/attributes.inc"
    }
  }
#define LOCKSTEP_ATTRS(number, kind, word)                                                         \
  /* NOLINTNEXTLINE(google-explicit-constructor) */                                                \
  constexpr OperatorAttrs(const kind##Attrs& attrs) : kind_(AttrsKind::k##kind), word##_(attrs) {} \
  [[gnu::always_inline]] constexpr const kind##Attrs& word() const {                               \
    if (kind_ != AttrsKind::k##kind) __builtin_trap();                                             \
    return word##_;                                                                                \
  }                                                                                                \
  [[gnu::always_inline]] constexpr kind##Attrs& word() {                                           \
    if (kind_ != AttrsKind::k##kind) __builtin_trap();                                             \
    return word##_;                                                                                \
  }
#include "operators/attributes.inc"

  constexpr AttrsKind kind() const { return kind_; }

  // Calls f(struct), unless the kind is kNone.
  template <typename F>
  void apply(const F& f) {
    switch (kind_) {
      case AttrsKind::kNone:
        break;
#define LOCKSTEP_ATTRS(number, kind, word) \
  case AttrsKind::k##kind:                 \
    f(word##_);                            \
    break;
#include "operators/attributes.inc"
    }
  }

 private:
  AttrsKind kind_ = AttrsKind::kNone;
  union {
    char none_;
#define LOCKSTEP_ATTRS(number, kind, word) kind##Attrs word##_;
#include "operators/attributes.inc"
  };
};

[[gnu::always_inline]] constexpr int64_t rotary_dim_of(const RopeTableAttrs& attrs) {
  return attrs.inv_freq.size / (attrs.lengths.size + 1) * 2;
}

// The frequencies for a sequence with this rope_length.
[[gnu::always_inline]] constexpr const float* inv_freq_for(const RopeTableAttrs& attrs,
                                                           int64_t rope_length) {
  int64_t set = 0;
  while (set < attrs.lengths.size && attrs.lengths[set] < rope_length) ++set;
  return attrs.inv_freq.data + set * (rotary_dim_of(attrs) / 2);
}

// The attributes of the rotation that rope_attention begins with.
[[gnu::always_inline]] constexpr RopeAttrs rope_of(const AttentionAttrs& attrs) {
  return {attrs.head_dim, attrs.rotary_dim, attrs.offset, attrs.interleaved};
}

// The first position that a query at `position` sees.
[[gnu::always_inline]] constexpr int64_t first_seen(const AttentionAttrs& attrs, int64_t position) {
  const bool cut = attrs.window > 0 && attrs.window <= position;
  const int64_t in_window = cut ? position - attrs.window + 1 : 0;
  const int64_t in_chunk = attrs.chunk > 0 ? position / attrs.chunk * attrs.chunk : 0;
  return in_window > in_chunk ? in_window : in_chunk;
}

}  // namespace lockstep
