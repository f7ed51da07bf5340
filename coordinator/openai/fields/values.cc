// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/fields/values.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/status.h"
#include "coordinator/openai/error.h"

namespace lockstep::openai {
namespace {

std::string shown(const OrderedJson& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return printable(write_json(value));
}

}  // namespace

const OrderedJson* member(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<int64_t> timeout_of(std::string_view header) {
  constexpr int64_t kMaxMs = 86'400'000;
  if (header.empty()) return 0;
  int64_t ms = 0;
  const char* end = header.data() + header.size();
  const auto [stop, error] = std::from_chars(header.data(), end, ms);
  if (error == std::errc() && stop == end && 1 <= ms && ms <= kMaxMs) return ms;
  return invalid_argument("{}: must be 1 to {} milliseconds, found {}", kTimeoutHeader, kMaxMs,
                          printable(header));
}

absl::Status wrong_value(const std::string& field, const std::string& wanted,
                         const OrderedJson& found) {
  return refusal(field, fmt::format("must be {}, found {}", wanted, shown(found)));
}

absl::StatusOr<bool> as_bool(const std::string& field, const OrderedJson& value) {
  if (value.is_boolean()) return value.get<bool>();
  return wrong_value(field, "true or false", value);
}

absl::StatusOr<std::string> as_string(const std::string& field, const OrderedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return wrong_value(field, "a string", value);
}

absl::StatusOr<int64_t> as_integer(const std::string& field, const OrderedJson& value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number == std::floor(number) && std::abs(number) <= kExact) {
      return static_cast<int64_t>(number);
    }
  } else if (value.is_number_integer() &&
             !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
    return value.get<int64_t>();
  }
  return wrong_value(field, "an integer of 64 bits", value);
}

absl::StatusOr<int32_t> as_int32(const std::string& field, const OrderedJson& value) {
  ASSIGN_OR_RETURN(const int64_t number, as_integer(field, value));
  if (number != static_cast<int32_t>(number)) {
    return wrong_value(field, "an integer of 32 bits", value);
  }
  return static_cast<int32_t>(number);
}

absl::StatusOr<float> as_float(const std::string& field, const OrderedJson& value) {
  if (value.is_number()) return static_cast<float>(value.get<double>());
  return wrong_value(field, "a number", value);
}

absl::StatusOr<std::vector<int32_t>> as_ids(const std::string& field, const OrderedJson& value) {
  if (!value.is_array()) return wrong_value(field, "a list of token ids", value);
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const OrderedJson& id : value) {
    ids.emplace_back();
    ASSIGN_OR_RETURN(ids.back(), as_int32(field, id));
  }
  return ids;
}

absl::Status set_scalar(const std::string& field, const OrderedJson& value, const char* name,
                        v1::GenerateRequest* message) {
  using Descriptor = google::protobuf::FieldDescriptor;
  const Descriptor* descriptor = message->GetDescriptor()->FindFieldByName(name);
  const auto* reflection = message->GetReflection();
  switch (descriptor->cpp_type()) {
    case Descriptor::CPPTYPE_BOOL: {
      ASSIGN_OR_RETURN(const bool flag, as_bool(field, value));
      reflection->SetBool(message, descriptor, flag);
      return absl::OkStatus();
    }
    case Descriptor::CPPTYPE_INT32: {
      ASSIGN_OR_RETURN(const int32_t number, as_int32(field, value));
      reflection->SetInt32(message, descriptor, number);
      return absl::OkStatus();
    }
    case Descriptor::CPPTYPE_UINT64: {
      if (value.is_number_unsigned()) {
        reflection->SetUInt64(message, descriptor, value.get<uint64_t>());
        return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(const int64_t number, as_integer(field, value));
      reflection->SetUInt64(message, descriptor, static_cast<uint64_t>(number));
      return absl::OkStatus();
    }
    case Descriptor::CPPTYPE_FLOAT: {
      ASSIGN_OR_RETURN(const float number, as_float(field, value));
      reflection->SetFloat(message, descriptor, number);
      return absl::OkStatus();
    }
    case Descriptor::CPPTYPE_STRING: {
      ASSIGN_OR_RETURN(std::string text, as_string(field, value));
      reflection->SetString(message, descriptor, std::move(text));
      return absl::OkStatus();
    }
    default:
      LOCKSTEP_CHECK(!"a field of the table is not a scalar");
  }
}

}  // namespace lockstep::openai
