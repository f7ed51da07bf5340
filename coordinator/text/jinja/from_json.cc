// SPDX-License-Identifier: Apache-2.0
// The JSON was read with a bound on its depth, which bounds the recursion.
#include "coordinator/text/jinja/from_json.h"

namespace lockstep::jinja {
namespace {

Result convert(Runtime& runtime, const OrderedJson& json, std::string_view key,
               IsFromRequest is_from_request) {
  RETURN_IF_ERROR(runtime.budget.status());
  const auto text = [&](const std::string& bytes, std::string_view under) {
    return runtime.text(MarkedText::of(bytes, is_from_request(under, bytes)));
  };
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return json.get<bool>();
    case OrderedJson::value_t::number_integer:
      return json.get<int64_t>();
    case OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{INT64_MAX}) {
        return Unsigned{json.get<uint64_t>()};
      }
      return json.get<int64_t>();
    case OrderedJson::value_t::number_float:
      return json.get<double>();
    case OrderedJson::value_t::string:
      return text(json.get_ref<const std::string&>(), key);
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      for (const OrderedJson& item : json) {
        ASSIGN_OR_RETURN(Value value, convert(runtime, item, {}, is_from_request));
        items.push_back(std::move(value));
      }
      return runtime.list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      Dict dict;
      for (const auto& [name, item] : json.items()) {
        ASSIGN_OR_RETURN(Value value, convert(runtime, item, name, is_from_request));
        dict.set(text(name, {}), std::move(value));
      }
      return runtime.dict(std::move(dict));
    }
    default:
      return None{};
  }
}

}  // namespace

Result from_json(Runtime& runtime, const OrderedJson& json, IsFromRequest is_from_request) {
  return convert(runtime, json, {}, is_from_request);
}

}  // namespace lockstep::jinja
