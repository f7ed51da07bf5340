// SPDX-License-Identifier: Apache-2.0
// The traits of a chat template: the forms of messages that it accepts, and what it leaves out.
// Loading a template finds its traits: test conversations with unique texts are rendered, and the
// prompt is searched for these texts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/text_map.h"

namespace lockstep {

struct TemplateInput;

// The fate of a part of a conversation. kRefused: the template raises an error.
enum class Fate : uint8_t { kShown, kLeftOut, kRefused };

// The place of a system or developer message: alone, before the first user message, or after an
// answer.
enum class Place : uint8_t { kAlone, kFirst, kLater };

// The forms of content that a template takes: a string, a list of {"type": "text", "text": ...}, or
// both with the same result.
enum class ContentForm : uint8_t { kText, kParts, kEither };

// One text part of a content that is a list.
OrderedJson text_part(std::string_view text);

// The content that the template accepts in a message with calls and no text.
enum class NoContent : uint8_t { kEmpty, kNull, kAbsent };

// How the template shows two parts that one message may have: in that message, only if they are in
// two successive messages, or only one of them.
enum class Pairing : uint8_t { kTogether, kApart, kOneOnly };

// The defaults are for a template that was not tested: everything is passed unchanged.
struct TemplateTraits {
  // Whether a plain conversation is shown. If not, nothing else was tested.
  bool asked = false;

  ContentForm turn_content = ContentForm::kText;
  ContentForm instruction_content = ContentForm::kText;
  ContentForm result_content = ContentForm::kText;

  std::array<Fate, 3> system = {};  // Indexed by Place.
  std::array<Fate, 3> developer = {};
  bool several_instructions = true;         // Two instructions at the start are both shown.
  bool later_instruction_replaces = false;  // A later instruction hides earlier ones.
  bool instructions_need_question = false;  // Shown only if the last message is a user's.
  Fate other_roles = Fate::kShown;          // For a role that the template does not name.
  TextSet<std::string> names;               // All quoted words, also the roles that it names.

  Fate tools = Fate::kShown;
  std::string_view tools_variable = "tools";  // SmolLM3 reads them as "xml_tools".
  Fate documents = Fate::kShown;
  Fate calls = Fate::kShown;
  Fate results = Fate::kShown;
  // Whether the template takes a call's arguments as a JSON object, and whether as JSON text. At
  // least one is true if calls are shown.
  bool arguments_as_object = true;
  bool arguments_as_text = false;
  NoContent no_content = NoContent::kEmpty;
  Pairing content_and_calls = Pairing::kTogether;
  Pairing several_calls = Pairing::kTogether;

  using Render = absl::FunctionRef<absl::StatusOr<std::string>(const TemplateInput& request)>;
  // Tests a template with this text. Renders about 60 small conversations.
  static TemplateTraits ask(std::string_view source, Render render);
};

}  // namespace lockstep
