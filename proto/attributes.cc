// SPDX-License-Identifier: Apache-2.0
#include "proto/attributes.h"

#include <fmt/format.h>

#include <type_traits>

#include "absl/strings/ascii.h"
#include "operators/attribute_fields.h"
#include "operators/op.h"

namespace lockstep {
namespace {

using program::Attributes;

#define LOCKSTEP_ATTRS(number, kind, word) \
  static_assert(Attributes::k##kind == (number), #word ": program.proto has another number");
#include "operators/attributes.inc"

#define LOCKSTEP_OP(number, constant, message, word) \
  static_assert(program::message == (number), #word ": program.proto has another number");
#include "operators/ops.inc"
static_assert(program::Op_ARRAYSIZE == kOpCount, "program.proto has more than operators/ops.inc");

#define LOCKSTEP_FUNCTION(number, constant, message, word) \
  static_assert(program::message == (number), #word ": program.proto has another number");
#include "operators/functions.inc"
static_assert(program::Function_ARRAYSIZE == kFunctionCount,
              "program.proto has more than operators/functions.inc");

// Defines read(message, struct) and write(struct, message) for every kind, field by field.
#define LOCKSTEP_ATTRS(number, kind, word) \
  void read([[maybe_unused]] const program::kind##Attrs& from, kind##Attrs& to) {
#define LOCKSTEP_FIELD(type, name, min, max, meaning) to.name = static_cast<type>(from.name());
#define LOCKSTEP_LIST(type, name, min, max, meaning) \
  to.name = {from.name().data(), from.name().size()};
#define LOCKSTEP_ATTRS_END }
#include "operators/attributes.inc"

#define LOCKSTEP_ATTRS(number, kind, word) \
  void write(const kind##Attrs& from, program::kind##Attrs& to) {
#define LOCKSTEP_FIELD(type, name, min, max, meaning) \
  to.set_##name(static_cast<decltype(to.name())>(from.name));
#define LOCKSTEP_LIST(type, name, min, max, meaning) \
  to.mutable_##name()->Add(from.name.begin(), from.name.end());
#define LOCKSTEP_ATTRS_END }
#include "operators/attributes.inc"

std::string enum_text(Function value) {
  return program::Function_Name(static_cast<program::Function>(value));
}
std::string enum_text(PositionRow value) {
  return program::PositionRow_Name(static_cast<program::PositionRow>(value));
}

template <typename T>
std::string list_text(const ArrayView<T>& list, bool brief) {
  if (brief && list.size > 4) {
    return fmt::format("[{} .. {}, {} values]", list[0], list[list.size - 1], list.size);
  }
  return fmt::format("[{}]", fmt::join(list.begin(), list.end(), ", "));
}

// "window 8"; for a flag its name, for an enum its value: "interleaved", "silu".
template <typename T>
std::string field_text(const AttrsField& field, const T& value, bool brief) {
  if constexpr (std::is_same_v<T, bool>) {
    return field.name;
  } else if constexpr (std::is_enum_v<T>) {
    return absl::AsciiStrToLower(enum_text(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{} {}", field.name, value);
  } else {
    return fmt::format("{} {}", field.name, list_text(value, brief));
  }
}

template <typename T>
bool is_absent(const T& value) {
  if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else {
    return value == T{};
  }
}

// The message's fields as they are.
OperatorAttrs fields_of(const Attributes& from) {
  OperatorAttrs to(attrs_kind(from));
  switch (to.kind()) {
    case AttrsKind::kNone:
      break;
#define LOCKSTEP_ATTRS(number, kind, word) \
  case AttrsKind::k##kind:                 \
    read(from.word(), to.word());          \
    break;
#include "operators/attributes.inc"
  }
  return to;
}

}  // namespace

OperatorAttrs bind_attributes(const Attributes& from) {
  OperatorAttrs attrs = fields_of(from);
  if (attrs.kind() == AttrsKind::kAttention && attrs.attention().v_dim == 0) {
    attrs.attention().v_dim = attrs.attention().head_dim;
  }
  return attrs;
}

Attributes to_message(const OperatorAttrs& from) {
  Attributes to;
  switch (from.kind()) {
    case AttrsKind::kNone:
      break;
#define LOCKSTEP_ATTRS(number, kind, word)    \
  case AttrsKind::k##kind:                    \
    write(from.word(), *to.mutable_##word()); \
    break;
#include "operators/attributes.inc"
  }
  return to;
}

std::string attributes_text(const Attributes& attributes, bool brief) {
  std::string text;
  fields_of(attributes).apply([&](auto& fields) {
    visit_fields(fields, [&](const AttrsField& field, const auto& value) {
      if (field.option && is_absent(value)) return;
      text += (text.empty() ? "" : " ") + field_text(field, value, brief);
    });
  });
  return text;
}

}  // namespace lockstep
