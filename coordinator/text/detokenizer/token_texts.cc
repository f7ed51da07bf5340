// SPDX-License-Identifier: Apache-2.0
// Uses two streams of the decoder: one gives each token's bytes, from which characters are made;
// the other gives the text, which determines their offsets.
#include "coordinator/text/detokenizer/token_texts.h"

#include <algorithm>

#include "coordinator/text/unicode/unicode.h"

namespace lockstep {

TokenTexts::TokenTexts(const Tokenizer* tokenizer, bool continues, std::string_view known)
    : tokenizer_(tokenizer),
      known_(known),
      text_(tokenizer->decoder().start(continues)),
      bytes_(tokenizer->decoder().start(continues, Decoder::Gives::kBytes)) {}

const std::string* TokenTexts::known_text(int32_t id) const {
  const std::string* special = tokenizer_->shown_text(id, /*skip_special=*/false);
  return special != nullptr && !special->empty() && known_.starts_with(*special) ? special
                                                                                 : nullptr;
}

TokenText TokenTexts::push(int32_t id) {
  const Decoder& decoder = tokenizer_->decoder();
  const std::string* shown = tokenizer_->shown_text(id, /*skip_special=*/true);
  if (shown == nullptr) shown = known_text(id);
  if (shown == nullptr) return instead(id);
  TokenText token = {.offset = offset_};
  decoder.push(*shown, &bytes_, &token.bytes);
  begun_ += token.bytes;
  token.text = take_characters(&begun_, /*is_end=*/false, decoder.replaces());
  std::string certain;
  decoder.push(*shown, &text_, &certain);
  known_.remove_prefix(std::min(certain.size(), known_.size()));
  shown_ += count_characters(certain);
  offset_ = text_.holds_back() ? offset_ + count_characters(token.text) : shown_;
  return token;
}

TokenText TokenTexts::instead(int32_t id) const {
  TokenText token = {.offset = offset_};
  const std::string* shown = tokenizer_->shown_text(id, /*skip_special=*/false);
  if (shown == nullptr) return token;
  Decoder::State bytes = bytes_;
  tokenizer_->decoder().push(*shown, &bytes, &token.bytes);
  const bool goes_on = !token.bytes.empty() && (token.bytes[0] & 0xC0) == 0x80;
  std::string begun = goes_on ? begun_ + token.bytes : token.bytes;
  token.text = take_characters(&begun, /*is_end=*/true, tokenizer_->decoder().replaces());
  return token;
}

std::vector<TokenText> TokenTexts::push_first(std::span<const int32_t> ids) {
  std::vector<TokenText> texts(ids.size());
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] != ids[0]) texts[i] = instead(ids[i]);
  }
  texts[0] = push(ids[0]);
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] == ids[0]) texts[i] = texts[0];
  }
  return texts;
}

}  // namespace lockstep
