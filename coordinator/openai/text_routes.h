// SPDX-License-Identifier: Apache-2.0
// Answers that need no generation: the tokens of a text, their number, the prompt of a chat, and
// the texts of tokens.
#pragma once

#include <vector>

#include "coordinator/http/router.h"
#include "coordinator/openai/generation.h"

namespace lockstep::openai {

// The context outlives the routes.
std::vector<http::Route> text_routes(ApiContext* context);

}  // namespace lockstep::openai
