// SPDX-License-Identifier: Apache-2.0
// A model's chat template: found beside the model's tokenizer, and rendered with a request's
// messages as in the reference (transformers' apply_chat_template).
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

// The input of a template. A null value becomes Jinja's none.
struct TemplateInput {
  OrderedJson messages;
  OrderedJson tools;
  std::string_view tools_variable = "tools";  // See TemplateTraits.
  OrderedJson documents;
  bool add_generation_prompt = false;
  // Whether the model continues the last message, whose end is then left out: true, or the name of
  // the field to continue.
  OrderedJson continue_final_message = false;
  // An object with further variables, which the caller has checked.
  OrderedJson variables = OrderedJson::object();
};

// Immutable after loading: any thread may render it.
class ChatTemplate {
 public:
  // Loads the template for a model's folder. If `chosen` is not empty, load_chosen() loads it. Else
  // the template is in the first of these places that has one: the .jinja files
  // (chat_template.jinja and additional_chat_templates/*.jinja), chat_template.json,
  // tokenizer_config.json. token_files.h reads the special tokens. Errors name the file, but never
  // its folder: clients read these errors.
  static absl::StatusOr<ChatTemplate> load(const std::filesystem::path& folder,
                                           const std::string& chosen = {});
  // Loads the choice of --chat-template: the name of a known template (known_templates.h), or a
  // file that contains one template.
  static absl::StatusOr<ChatTemplate> load_chosen(const std::string& chosen);
  // Reads JSON: the template's text, or several by name, as {"name": "text"} or as a list of
  // {"name": ..., "template": ...}.
  static absl::StatusOr<ChatTemplate> from_json(const OrderedJson& json);

  // Whether the source of one of its templates contains this text.
  bool mentions(std::string_view text) const;
  // The name of the template that render() uses: "default" if it has no name, "" if there is no
  // template.
  std::string name(bool has_tools, bool has_documents) const;
  // The texts of all its templates.
  std::vector<std::string_view> sources() const;

  // Whether one of its templates reads a variable of this name.
  bool reads(std::string_view variable) const;

  // Variables that any request may set: whether the model thinks, and how much.
  static constexpr std::string_view kThinkingVariables[] = {"enable_thinking", "thinking",
                                                            "reasoning_effort"};

  // Variables of the tokenizer: bos_token and others.
  static bool is_special_token_name(std::string_view name);
  void set_special_token(const std::string& name, const std::string& text);

  // The traits, found by load(), of the template used with or without tools.
  const TemplateTraits& traits(bool has_tools, bool has_documents = false) const;

  // The prompt, with the ranges that came from the request. The usual role names count as the
  // template's own text: some templates make special tokens of them.
  absl::StatusOr<MarkedText> render(const TemplateInput& request, const std::tm& now) const;

 private:
  struct Named {
    std::string name;  // "default", "tool_use", ...; empty for a template without a name.
    std::string source;
    jinja::Template parsed;
    TemplateTraits traits;
  };
  static absl::StatusOr<ChatTemplate> find(const std::filesystem::path& folder,
                                           const OrderedJson& tokenizer_config);
  // Reads the folder's .jinja files; without such files, the result has no template.
  static absl::StatusOr<ChatTemplate> find_files(const std::filesystem::path& folder);
  // Replaces a template of the same name.
  absl::Status add(const std::string& name, const std::string& source);
  absl::Status add_file(const std::string& name, const std::filesystem::path& path);
  absl::StatusOr<const Named*> choose(bool has_tools, bool has_documents) const;
  absl::StatusOr<MarkedText> render(const Named& named, const TemplateInput& request,
                                    const std::tm& now) const;

  std::vector<Named> templates_;
  OrderedJson special_tokens_ = OrderedJson::object();
};

}  // namespace lockstep
