// SPDX-License-Identifier: Apache-2.0
// Small bodies of requests, and checks of their answers.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "coordinator/http/exchange.h"
#include "coordinator/openai/fields/field_table.h"

namespace lockstep::openai {

inline const OrderedJson kStory = {
    {"prompt", "Once upon a time"}, {"max_tokens", 20}, {"seed", 1}, {"ignore_eos", true}};
inline const OrderedJson kTalk = {
    {"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
    {"max_tokens", 20},
    {"seed", 1},
    {"ignore_eos", true}};

// An endpoint that reads a body, and a small body for it.
struct BodyPath {
  Endpoint endpoint;
  const char* path;
  OrderedJson body;
};

inline const BodyPath kBodyPaths[] = {
    {kCompletions, "/v1/completions", {{"prompt", "Once"}, {"max_tokens", 2}}},
    {kChat,
     "/v1/chat/completions",
     {{"messages", {{{"role", "user"}, {"content", "Once"}}}}, {"max_tokens", 2}}},
    {kResponses, "/v1/responses", {{"input", "Once"}, {"max_output_tokens", 2}}},
    {kTokenize, "/tokenize", {{"prompt", "Once"}}},
    {kDetokenize, "/detokenize", {{"tokens", {5, 6}}}},
    {kChat, "/v1/chat/completions/render", {{"messages", {{{"role", "user"}, {"content", "a"}}}}}},
    {kResponses, "/v1/responses/input_tokens", {{"input", "Once"}}}};

// The values that a refused field may have.
inline OrderedJson neutral_values(const Field& field) {
  const std::string values = *field.neutral == '\0' ? "\"\", [], false" : field.neutral;
  return OrderedJson::parse("[" + values + "]");
}

inline OrderedJson with(OrderedJson body, const OrderedJson& more) {
  body.update(more);
  return body;
}

inline std::string header(const http::Response& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

inline void expect_error(const http::Response& response, int status, const OrderedJson& param,
                         const OrderedJson& code, const std::string& text) {
  EXPECT_EQ(response.status, status) << response.body;
  const OrderedJson error = OrderedJson::parse(response.body).at("error");
  EXPECT_EQ(error.size(), 4u) << error;
  EXPECT_TRUE(error.at("type").is_string());
  EXPECT_EQ(error.at("param"), param) << error;
  EXPECT_EQ(error.at("code"), code) << error;
  EXPECT_NE(error.at("message").get<std::string>().find(text), std::string::npos) << error;
}

}  // namespace lockstep::openai
