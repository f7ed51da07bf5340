// SPDX-License-Identifier: Apache-2.0
// Checks whether a chat template and a tokenizer fit together. Free functions, for any thread.
#pragma once

#include <string>
#include <vector>

#include "coordinator/text/template/chat_template.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

// Returns the template's tags, such as <|im_start|>, that the tokenizer splits because it has no
// token for them. With such a template the model sees another text than in training, and may never
// write the tag that ends its answer. Only tags between "<|" and "|>" (or DeepSeek's bars) count,
// except tags that name a role: published models (Zephyr, OLMo 2, Falcon 3) split these.
std::vector<std::string> tags_without_token(const ChatTemplate& chat_template,
                                            const Tokenizer& tokenizer);

}  // namespace lockstep
