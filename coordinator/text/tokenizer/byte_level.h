// SPDX-License-Identifier: Apache-2.0
// The alphabet of byte-level BPE: each of the 256 bytes is written as one visible character.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// Writes every byte as its character. Any thread may call these functions.
std::string to_byte_level(std::string_view bytes);

// Appends the bytes of the characters; if one has no byte, appends the text unchanged.
void append_byte_level_decoded(std::string_view text, std::string* bytes);

}  // namespace lockstep
