// SPDX-License-Identifier: Apache-2.0
// A model's chat template: found beside its tokenizer, and rendered from a request's messages as
// the reference (transformers' apply_chat_template) does it.
#pragma once

#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "coordinator/text/jinja/template.h"
#include "coordinator/text/template/template_traits.h"

namespace lockstep {

// What a request gives a template. What is null is passed as none.
struct ChatRequest {
  OrderedJson messages;
  OrderedJson tools;
  std::string_view tools_variable = "tools";  // See TemplateTraits.
  OrderedJson documents;
  bool add_generation_prompt = false;
  // The last message is left open for the model to go on with: true, or the name of the field that
  // is left open.
  OrderedJson continue_final_message = false;
  // Other variables, which the caller has checked: an object.
  OrderedJson variables = OrderedJson::object();
};

// Immutable once loaded: any thread may render it.
class ChatTemplate {
 public:
  // From a model's folder: chat_template.jinja with additional_chat_templates/*.jinja,
  // chat_template.json or tokenizer_config.json, the first that has one, or else what is chosen;
  // special tokens by token_files.h. Errors name the file, and never its folder: clients read them.
  static absl::StatusOr<ChatTemplate> load(const std::filesystem::path& folder,
                                           const std::string& chosen = {});
  // The choice of --chat-template: a template that is known by name (known_templates.h), or a file
  // with a template alone.
  static absl::StatusOr<ChatTemplate> load_chosen(const std::string& chosen);
  // From JSON: the template's text, or several by name, as {"name": "text"} or as a list of
  // {"name": ..., "template": ...}.
  static absl::StatusOr<ChatTemplate> from_json(const OrderedJson& json);

  // Whether one of its templates has this text.
  bool mentions(std::string_view text) const;
  // The name of the one that render() takes: "default" for one without a name, "" for none.
  std::string name(bool has_tools, bool has_documents) const;
  // The texts of all its templates.
  std::vector<std::string_view> sources() const;

  // Whether one of its templates looks at a variable of this name.
  bool reads(std::string_view variable) const;

  // Variables that any request may set: whether the model thinks, and how much.
  static constexpr std::string_view kThinkingVariables[] = {"enable_thinking", "thinking",
                                                            "reasoning_effort"};

  // Variables of the tokenizer: bos_token and its like.
  static bool is_special_token_name(std::string_view name);
  void set_special_token(const std::string& name, const std::string& text);

  // The answers that load() got of the template that is taken with or without tools.
  const TemplateTraits& traits(bool has_tools, bool has_documents = false) const;

  // The prompt, with the ranges that came from the request. Roles by their usual names count as
  // the template's own words: some templates make special tokens of them.
  absl::StatusOr<MarkedText> render(const ChatRequest& request, const std::tm& now) const;

 private:
  struct Named {
    std::string name;  // "default", "tool_use", ...; empty where there is one without a name.
    std::string source;
    jinja::Template parsed;
    TemplateTraits traits;
  };
  static absl::StatusOr<ChatTemplate> find(const std::filesystem::path& folder,
                                           const OrderedJson& tokenizer_config);
  // The folder's .jinja files; without a template where it has none.
  static absl::StatusOr<ChatTemplate> find_files(const std::filesystem::path& folder);
  // In place of one of the same name.
  absl::Status add(const std::string& name, const std::string& source);
  absl::Status add_file(const std::string& name, const std::filesystem::path& path);
  absl::StatusOr<const Named*> choose(bool has_tools, bool has_documents) const;
  absl::StatusOr<MarkedText> render(const Named& named, const ChatRequest& request,
                                    const std::tm& now) const;

  std::vector<Named> templates_;
  OrderedJson special_tokens_ = OrderedJson::object();
};

}  // namespace lockstep
