// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/echo.h"

#include <algorithm>
#include <span>

#include "coordinator/api/chat/message_text.h"

namespace lockstep::openai {
namespace {

// The number of begin tokens at the front of `ids` that tokenizing added: the echo leaves them out.
size_t added_begin(const ApiRequest& request, const std::vector<int32_t>& ids,
                   const Tokenizer& tokenizer) {
  if (request.shared.has_add_special() && !request.shared.add_special()) return 0;
  const absl::StatusOr<std::vector<int32_t>> added = tokenizer.encode("");
  if (!added.ok()) return 0;
  return static_cast<size_t>(std::ranges::mismatch(ids, *added).in1 - ids.begin());
}

}  // namespace

std::string echo_of(const ApiRequest& request, size_t index, const std::vector<int32_t>& ids,
                    const Tokenizer& tokenizer) {
  if (request.endpoint == kChat) {
    const v1::ChatMessage& last = *request.shared.chat().messages().rbegin();
    return last.role() == "assistant" ? text_of(last) : "";
  }
  const v1::GenerateRequest& given = request.prompts[index];
  if (given.has_prompt()) {
    return request.shared.has_truncate_prompt_tokens() ? tokenizer.decode(ids) : given.prompt();
  }
  const std::span<const int32_t> all(ids);
  return tokenizer.decode(all.subspan(added_begin(request, ids, tokenizer)),
                          /*skip_special=*/false);
}

}  // namespace lockstep::openai
