// SPDX-License-Identifier: Apache-2.0
// Reads the tokens in the other files of a tokenizer: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, merged as in the reference (transformers 5's
// AutoTokenizer). Free functions, for any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lockstep {

// A string that is a token wherever it occurs in a text.
struct AddedToken {
  std::string text;
  int32_t id = -1;           // -1: not stated.
  bool single_word = false;  // Matches only if no word character (\w) is next to it.
  bool lstrip = false;       // Includes the blanks before it (rstrip: after it).
  bool rstrip = false;
  bool normalized = false;  // Matched after normalization.
  bool special = false;     // Controls the model; decoding leaves it out.
};

// An added token of these files. If tokenizer.json has the token, too, its entry there stays as it
// is, unless a flag below is set.
struct DeclaredToken {
  AddedToken token;
  bool replaces = false;       // The entry gets the flags of `token`.
  bool makes_special = false;  // The entry becomes special.
};

// Names that every tokenizer may have; other names that end with "_token" are possible, too.
inline constexpr std::string_view kTokenNames[] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

struct TokenFiles {
  std::map<std::string, std::string, std::less<>> names;  // "bos_token": "<s>"
  std::vector<DeclaredToken> tokens;                      // In the order in which they get ids.
};

// Missing files are ignored. An error is one line that names the file and the key.
absl::StatusOr<TokenFiles> read_token_files(const std::filesystem::path& folder);

// The same from the contents of the three files; an empty text counts as a missing file.
absl::StatusOr<TokenFiles> merge_token_files(std::string_view tokenizer_config,
                                             std::string_view special_tokens_map,
                                             std::string_view added_tokens);

}  // namespace lockstep
