// SPDX-License-Identifier: Apache-2.0
// Checks for the fields of any body, on every endpoint that reads a body, for the fuzzer and its
// unit test. An input chooses an endpoint, and then fields that are added to the endpoint's small
// body.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_dir.h"
#include "coordinator/openai/fields/field_table.h"
#include "coordinator/openai/fields/unknown_fields.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/fuzz/draw.h"
#include "tests/fuzz/drawn_field.h"

namespace lockstep::openai {

// Two servers of one model: one names unknown fields, the other refuses them.
class FieldsCheck {
 public:
  // Returns a fault in the answers to the body that the bytes make, or "".
  std::string fault_of(std::string_view bytes) {
    Draw draw(bytes);
    const BodyPath& path = kBodyPaths[draw.number() % std::size(kBodyPaths)];
    OrderedJson body = path.body;
    for (int n = 0; n < 6 && !draw.is_over(); ++n) {
      const std::string name = draw_name(&draw);
      body[name] = draw_value(&draw, /*depth=*/4);
    }
    const http::Response answer = passing_.post(path.path, body.dump());
    const http::Response strict = refusing_.post(path.path, body.dump());
    std::string fault = fault_in(path.endpoint, body, answer);
    if (fault.empty()) fault = fault_in_strict(path.endpoint, body, answer, strict);
    taken_ += answer.status == 200;
    if (fault.empty()) return "";
    return fmt::format("{}: {} {}: {} {}; strict: {} {}", fault, path.path, body.dump(),
                       answer.status, answer.body, strict.status, strict.body);
  }
  int taken() const { return taken_; }  // The number of answers with 200.

 private:
  static const Field* row_of(std::string_view name, Endpoint endpoint) {
    const auto row = std::ranges::find_if(fields(), [&](const Field& field) {
      return field.name == name && (field.endpoints & endpoint) != 0;
    });
    return row == fields().end() ? nullptr : &*row;
  }

  static std::vector<std::string> unknown_in(const OrderedJson& body, Endpoint endpoint) {
    std::vector<std::string> names;
    for (const auto& [name, value] : body.items()) {
      if (row_of(name, endpoint) == nullptr) names.push_back(name);
    }
    return names;
  }

  static std::string fault_in_error(Endpoint endpoint, const OrderedJson& body,
                                    const http::Response& answer) {
    if (answer.status < 400 || answer.status >= 500) return "neither an answer nor a refusal";
    const OrderedJson json = OrderedJson::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.size() != 1 || !json.contains("error")) return "no error";
    const OrderedJson& error = json["error"];
    for (const char* key : {"message", "type"}) {
      if (error.value(key, "").empty()) return std::string("an error without ") + key;
    }
    if (error.size() != 4 || !error.contains("code")) return "an error with other members";
    if (error.value("message", "").find('\n') != std::string::npos) return "an error of many lines";
    if (!error.contains("param") || !error["param"].is_string()) return "no field is to blame";
    const std::string param = error["param"];
    const std::string name = param.substr(0, param.find_first_of(".["));
    if (name == "prompt" && endpoint != kResponses) return "";
    if (name == "messages" || name == "input" || name == "tokens") return "";
    if (!body.contains(name)) return "a field that was not sent is to blame";
    const Field* row = row_of(name, endpoint);
    if (row == nullptr) return "a field that no table has is to blame";
    return kind_of(*row) == FieldKind::kHarmless ? "a harmless field is to blame" : "";
  }

  // Checks the answer of the server that ignores unknown fields.
  static std::string fault_in(Endpoint endpoint, const OrderedJson& body,
                              const http::Response& answer) {
    if (answer.status != 200) return fault_in_error(endpoint, body, answer);
    std::string ignored;
    for (std::string name : unknown_in(body, endpoint)) {
      name.resize(std::min<size_t>(name.size(), 64));
      std::ranges::replace_if(
          name, [](char c) { return c <= ' ' || c > '~' || c == ','; }, '?');
      ignored += (ignored.empty() ? "" : ", ") + (name.empty() ? "?" : name);
    }
    if (header(answer, kIgnoredFields) != ignored) return "other fields were ignored";
    for (const auto& [name, value] : body.items()) {
      const Field* row = row_of(name, endpoint);
      if (row == nullptr || kind_of(*row) != FieldKind::kRefused || value.is_null()) continue;
      const OrderedJson neutral = neutral_values(*row);
      if (std::ranges::find(neutral, value) == neutral.end()) return "a refused field was served";
    }
    return answer.body.find("\ndata: {\"error\":{") == std::string::npos ? "" : "a stream failed";
  }

  static std::string fault_in_strict(Endpoint endpoint, const OrderedJson& body,
                                     const http::Response& answer, const http::Response& strict) {
    const std::vector<std::string> unknown = unknown_in(body, endpoint);
    if (!header(strict, kIgnoredFields).empty()) return "a field was ignored";
    if (unknown.empty()) return strict.status == answer.status ? "" : "known fields are refused";
    if (answer.status != 200) return strict.status == 200 ? "a wrong body was served" : "";
    const OrderedJson json = OrderedJson::parse(strict.body, nullptr, /*allow_exceptions=*/false);
    const bool is_named =
        strict.status == 400 && json["error"]["param"] == printable(unknown[0].substr(0, 64));
    return is_named ? "" : "an unknown field was not refused";
  }

  static ModelOptions model_options() {
    return {.chat_template = LOCKSTEP_SOURCE_DIR "/tests/tools/stories_with_tools.jinja",
            .max_context = 24};
  }

  static ApiOptions api_options(const std::string& unknown_fields) {
    return {.tool_parser = "hermes", .reasoning_parser = "think", .unknown_fields = unknown_fields};
  }

  ApiServer passing_{{}, model_options(), api_options("pass")};
  ApiServer refusing_{{}, model_options(), api_options("error")};
  int taken_ = 0;
};

}  // namespace lockstep::openai
