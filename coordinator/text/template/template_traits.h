// SPDX-License-Identifier: Apache-2.0
// How a chat template takes a conversation, and what it leaves out. It is asked once, at load:
// conversations whose texts occur nowhere else are rendered, and the prompt has these texts or not.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

struct ChatRequest;

// The fate of a part of a conversation. kRefused: the template raises an error.
enum class Fate : uint8_t { kShown, kLeftOut, kRefused };

// The place of a system's or developer's text: without a user's, before one, after a turn.
enum class Place : uint8_t { kAlone, kFirst, kLater };

// The forms of content that a template takes: a string, a list of {"type": "text", "text": ...}, or
// either with one result.
enum class ContentForm : uint8_t { kText, kParts, kEither };

// One text of a content that is a list.
OrderedJson text_part(std::string_view text);

// The content of a message that has calls and no text.
enum class NoContent : uint8_t { kEmpty, kNull, kAbsent };

// How two things that one message may have reach the prompt: together, in two messages that follow
// one another, or only one of them.
enum class Pairing : uint8_t { kTogether, kApart, kOneOnly };

// The defaults are those of a template that was not asked: everything is passed as it is.
struct TemplateTraits {
  // Whether a plain conversation is shown. If not, nothing else was asked.
  bool asked = false;

  ContentForm turn_content = ContentForm::kText;
  ContentForm instruction_content = ContentForm::kText;
  ContentForm result_content = ContentForm::kText;

  std::array<Fate, 3> system = {};  // By Place.
  std::array<Fate, 3> developer = {};
  bool several_instructions = true;         // Two at the start are both shown.
  bool later_instruction_replaces = false;  // Those before it are then left out.
  bool instructions_need_question = false;  // They are shown where the user's text is the last.
  Fate other_roles = Fate::kShown;  // One that no template knows, and so any that it does not name.
  absl::flat_hash_set<std::string> names;  // Words in quotes: roles that it names are among them.

  Fate tools = Fate::kShown;
  std::string_view tools_variable = "tools";  // SmolLM3 reads them as "xml_tools".
  Fate documents = Fate::kShown;
  Fate calls = Fate::kShown;
  Fate results = Fate::kShown;
  // A call's arguments as a JSON object, or as the text of one: one at least where calls are shown.
  bool arguments_as_object = true;
  bool arguments_as_text = false;
  NoContent no_content = NoContent::kEmpty;
  Pairing content_and_calls = Pairing::kTogether;
  Pairing several_calls = Pairing::kTogether;

  using Render = absl::FunctionRef<absl::StatusOr<std::string>(const ChatRequest& request)>;
  // Asks a template with this text. Some 60 small conversations are rendered.
  static TemplateTraits ask(std::string_view source, Render render);
};

}  // namespace lockstep
