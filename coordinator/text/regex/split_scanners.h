// SPDX-License-Identifier: Apache-2.0
// Handwritten scanners for the split patterns of the common byte-level tokenizers. They need no
// engine, limits or recursion, and are several times as fast. Each agrees with its pattern on every
// text (tests/coordinator/text).
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

// Returns the end of the match that begins at `begin`; there is a match at every offset. The text
// must be well-formed UTF-8, the offset between code points and not at the end.
using Scanner = size_t (*)(std::string_view text, size_t begin);

// The pattern of GPT-2, which the ByteLevel pre-tokenizer uses.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3, tiktoken's cl100k: numbers in groups of three digits.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 2 and 3: the same, but each digit alone.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The scanner for exactly this pattern, or null.
Scanner find_scanner(std::string_view pattern);

}  // namespace lockstep
