// SPDX-License-Identifier: Apache-2.0
// The text before an answer, if a request asks for it ("echo").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/openai/api_request.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep::openai {

// For a completion its prompt `index`, whose tokens are `ids`; for a chat its last message, if that
// is the assistant's.
std::string echo_of(const ApiRequest& request, size_t index, const std::vector<int32_t>& ids,
                    const Tokenizer& tokenizer);

}  // namespace lockstep::openai
