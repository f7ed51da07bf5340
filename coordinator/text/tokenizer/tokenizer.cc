// SPDX-License-Identifier: Apache-2.0
// The order is that of Hugging Face tokenizers: added tokens of the raw text, normalization, added
// tokens of the normalized text, words, BPE, and finally begin and end tokens.
#include "coordinator/text/tokenizer/tokenizer.h"

#include <algorithm>

#include "base/system/file.h"
#include "coordinator/text/tokenizer/spec.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr size_t kMaxTextBytes = size_t{256} << 20;

absl::Status named(std::string_view file, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", file, one_line(message_of(status))));
}

absl::Status check_text(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return invalid_argument("text of {} bytes; the limit is {}", text.size(), kMaxTextBytes);
  }
  if (const auto invalid = first_invalid_utf8(text); invalid.has_value()) {
    return invalid_argument(
        "text is not UTF-8: byte {} must be the first byte of a character, found 0x{:02X}",
        *invalid, static_cast<unsigned char>(text[*invalid]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(const std::string tokenizer,
                   read_file(folder / "tokenizer.json", kMaxFileBytes));
  ASSIGN_OR_RETURN(const TokenFiles files, read_token_files(folder));
  auto loaded = parse(tokenizer, files);
  if (!loaded.ok()) return named(folder.string(), loaded.status());
  return loaded;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view tokenizer_json,
                                                            const TokenFiles& files) {
  ASSIGN_OR_RETURN(const Json spec, parse_json(tokenizer_json, "tokenizer.json"));
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
  RETURN_IF_ERROR(named("tokenizer.json", tokenizer->read(spec, files)));
  return tokenizer;
}

absl::Status Tokenizer::read(const Json& spec, const TokenFiles& files) {
  if (!spec.is_object()) {
    return invalid_argument("must be an object, found {}", describe(spec));
  }
  // "truncation" and "padding" are defaults of training scripts; a server truncates no prompt by
  // them.
  ASSIGN_OR_RETURN(model_, Bpe::from_json(member(spec, "model")));
  ASSIGN_OR_RETURN(normalizer_, Normalizer::from_json(member(spec, "normalizer")));
  ASSIGN_OR_RETURN(pre_tokenizer_, PreTokenizer::from_json(member(spec, "pre_tokenizer")));
  ASSIGN_OR_RETURN(decoder_, Decoder::from_json(member(spec, "decoder")));
  ASSIGN_OR_RETURN(added_tokens_, AddedTokens::from_json(member(spec, "added_tokens"), files.tokens,
                                                         model_.vocabulary(), normalizer_));
  ASSIGN_OR_RETURN(post_processor_,
                   PostProcessor::from_json(member(spec, "post_processor"), vocab_size()));
  const auto named_id = [&](std::string_view name) {
    const auto found = files.names.find(name);
    return found == files.names.end() ? std::nullopt : token_id(found->second);
  };
  bos_id_ = named_id("bos_token");
  eos_id_ = named_id("eos_token");
  if (!bos_id_.has_value()) bos_id_ = post_processor_.first();
  if (!eos_id_.has_value()) eos_id_ = post_processor_.last();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                                       const EncodeOptions& options) const {
  RETURN_IF_ERROR(check_text(text));
  std::vector<int32_t> ids;
  Bpe::Scratch scratch;
  for (const Segment& segment : added_tokens_.split_raw(text, options.parse_special)) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    RETURN_IF_ERROR(encode_text(text.substr(segment.begin, segment.end - segment.begin),
                                segment.begin == 0, options.parse_special, &scratch, &ids));
  }
  if (options.add_special) post_processor_.add_special(&ids);
  return ids;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::encode(const MarkedText& text,
                                                       bool add_special) const {
  RETURN_IF_ERROR(check_text(text.bytes));
  std::vector<int32_t> ids;
  Bpe::Scratch scratch;
  for (const Segment& segment : added_tokens_.split_raw(text)) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else {
      RETURN_IF_ERROR(encode_marked(text.substr(segment.begin, segment.end), segment.begin == 0,
                                    &scratch, &ids));
    }
  }
  if (add_special) post_processor_.add_special(&ids);
  return ids;
}

// Almost every text has no special token after normalization, and is encoded as a whole. For other
// texts, the marks are carried through normalization.
absl::Status Tokenizer::encode_marked(MarkedText text, bool at_start, Bpe::Scratch* scratch,
                                      std::vector<int32_t>* ids) const {
  if (text.from_request.empty()) {
    return encode_text(text.bytes, at_start, /*parse_special=*/true, scratch, ids);
  }
  bool start = at_start;
  std::string whole = text.bytes;
  RETURN_IF_ERROR(normalizer_.normalize(&whole, &start));
  const bool has_special = std::ranges::any_of(
      added_tokens_.split_normalized(whole, true),
      [&](const Segment& found) { return found.id >= 0 && is_special(found.id); });
  if (!has_special) {
    return encode_segments(whole, start, added_tokens_.split_normalized(whole, false), scratch,
                           ids);
  }
  RETURN_IF_ERROR(normalizer_.normalize(&text, &at_start));
  return encode_segments(text.bytes, at_start, added_tokens_.split_normalized(text), scratch, ids);
}

absl::Status Tokenizer::encode_text(std::string_view text, bool at_start, bool parse_special,
                                    Bpe::Scratch* scratch, std::vector<int32_t>* ids) const {
  std::string normalized(text);
  RETURN_IF_ERROR(normalizer_.normalize(&normalized, &at_start));
  return encode_segments(normalized, at_start,
                         added_tokens_.split_normalized(normalized, parse_special), scratch, ids);
}

absl::Status Tokenizer::encode_segments(std::string_view normalized, bool at_start,
                                        std::span<const Segment> segments, Bpe::Scratch* scratch,
                                        std::vector<int32_t>* ids) const {
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      ids->push_back(segment.id);
      continue;
    }
    Piece piece{std::string(normalized.substr(segment.begin, segment.end - segment.begin)),
                at_start && segment.begin == 0};
    ASSIGN_OR_RETURN(const std::vector<Piece> words, pre_tokenizer_.split(std::move(piece)));
    for (const Piece& word : words) RETURN_IF_ERROR(model_.encode(word.text, scratch, ids));
  }
  return absl::OkStatus();
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special,
                              size_t max_bytes) const {
  Decoder::State state = decoder_.start(false);
  std::string text;
  for (const int32_t id : ids) {
    const std::string* token = shown_text(id, skip_special);
    if (token != nullptr) decoder_.push(*token, &state, &text);
    if (text.size() > max_bytes) return text;
  }
  decoder_.finish(&state, &text);
  return text;
}

int32_t Tokenizer::vocab_size() const {
  return std::max(model_.vocabulary().size(), added_tokens_.vocabulary().size());
}

const std::string* Tokenizer::shown_text(int32_t id, bool skip_special) const {
  const AddedTokens::Shown* added = added_tokens_.shown(id);
  if (added == nullptr) return model_.vocabulary().text(id);
  return skip_special && added->skipped ? nullptr : &added->text;
}

std::string Tokenizer::token_text(int32_t id) const {
  const std::string* added = added_tokens_.vocabulary().text(id);
  const std::string* text = added != nullptr ? added : model_.vocabulary().text(id);
  return text == nullptr ? "" : *text;
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  const auto added = added_tokens_.vocabulary().find(token);
  return added.has_value() ? added : model_.vocabulary().find(token);
}

}  // namespace lockstep
