// SPDX-License-Identifier: Apache-2.0
// Whether a chat template and a tokenizer belong together. Free functions, for any thread.
#pragma once

#include <string>
#include <vector>

#include "coordinator/text/template/chat_template.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

// Tags of the template, such as <|im_start|>, that the tokenizer has no token for and spells in
// pieces: the model sees another text than it was trained with, and may never write the tag that
// ends its answer. Only tags between "<|" and "|>" (or DeepSeek's bars) count, and not those that
// name a role: published models (Zephyr, OLMo 2, Falcon 3) spell these.
std::vector<std::string> tags_without_token(const ChatTemplate& chat_template,
                                            const Tokenizer& tokenizer);

}  // namespace lockstep
