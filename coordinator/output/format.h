// SPDX-License-Identifier: Apache-2.0
// One table of how models write thoughts and tool calls in their text. A row has the tags, the
// notation of calls, and the marks in a chat template that show that a model was trained on the
// format.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

using Tags = std::array<std::string_view, 4>;  // Empty strings are unused.

struct TagPair {
  std::string_view begin;
  std::string_view end;
};
using TagPairs = std::array<TagPair, 4>;

enum class CallNotation {
  kNone,
  kJson,     // {"name": ..., "arguments": ...}, several in a list or one after the other.
  kHeaded,   // A name, a tag, and the arguments as a JSON object.
  kTagged,   // Name, keys and values between tags, typed by the function's schema.
  kPython,   // f(k="v", n=3), several in a list or one per line.
  kGemma,    // call:f{k:v,n:3} with tags in place of quotes.
  kHarmony,  // The whole answer, also thoughts, is a sequence of messages with headers.
};

struct JsonTags {
  std::string_view name = "name";  // The key of the name; empty: an object is {name: arguments}.
};

struct HeadedTags {
  std::string_view call;       // Before each name.
  std::string_view id;         // Between name and id.
  std::string_view arguments;  // Before the object.
  std::string_view end;        // After the object.
  // The name is functions.NAME:NUMBER, which is also the call's id.
  bool is_id = false;
};

struct TaggedTags {
  std::string_view call;      // Before each name.
  std::string_view name_end;  // Empty: the name ends before `key`, `separator` or `end`.
  std::string_view separator;
  std::string_view key;  // Before each key.
  std::string_view key_end;
  std::string_view value;  // Between key_end and the value; may be empty.
  std::string_view value_end;
  std::string_view end;    // After the last value.
  bool has_lines = false;  // One line break at each end of a value belongs to the tags.
};

struct Format {
  Tags names;
  std::array<std::string_view, 5> aliases = {};  // Names in vLLM and SGLang.
  std::string_view models;  // Models with this format in their chat templates or cards.

  TagPairs thoughts = {};
  bool thinks_again = false;       // Thoughts may follow content, too.
  bool call_ends_thought = false;  // A call ends a thought that has no end tag.
  TagPairs wraps = {};             // Hidden tags around content that is shown.
  Tags hidden = {};                // Tags that are never shown.

  CallNotation notation = CallNotation::kNone;
  bool has_json = false;  // kJson is also possible, if a brace follows the begin tag.
  bool is_bare = false;   // A text may also begin with calls that have no begin tag.
  bool at_start = false;  // Calls are only at the beginning of content.
  Tags begins = {};       // Before the calls.
  Tags ends = {};         // After the calls. Empty: a block is one list or one call.
  JsonTags json = {};
  HeadedTags headed = {};
  TaggedTags tagged = {};
  std::string_view quote;  // kGemma
  bool suffixes = false;   // Tags may have a suffix: <tag:word>.

  // A template has this format if it contains all marks of one of these lists, and none of
  // `not_marks`.
  std::array<Tags, 2> marks = {};
  Tags not_marks = {};

  // Whether the functions' schemas give the types of arguments.
  bool has_types() const { return notation == CallNotation::kTagged; }
  bool has_calls() const { return notation != CallNotation::kNone; }
  bool has_thoughts() const {
    return !thoughts[0].begin.empty() || notation == CallNotation::kHarmony;
  }
};

std::span<const Format> formats();
// Finds a format by name or alias, ignoring - _ and . in the name; null if there is none.
const Format* find_format(std::string_view name);

// The tags before and after the calls.
std::vector<std::string_view> block_tags(const Format& format);
// The tags that a parser looks for: thought_tags() for thoughts and content, call_tags() for calls.
std::vector<std::string_view> thought_tags(const Format& format);
std::vector<std::string_view> call_tags(const Format& format);

// The table of docs/http.md.
std::string format_table();

}  // namespace lockstep
