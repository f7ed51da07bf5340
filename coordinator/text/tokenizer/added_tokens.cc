// SPDX-License-Identifier: Apache-2.0
// The leftmost token wins, and of those that begin at the same place the longest. A token that is
// refused at its place (single_word, special) still consumes its text, as in Hugging Face
// tokenizers.
#include "coordinator/text/tokenizer/added_tokens.h"

#include <algorithm>

#include "coordinator/text/tokenizer/spec.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

size_t blanks_begin(std::string_view text, size_t end, size_t lowest) {
  while (end > lowest) {
    const CodePoint point = code_point_before(text, end);
    if (!is_space(point.value)) break;
    end -= point.bytes;
  }
  return std::max(end, lowest);
}

size_t blanks_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const CodePoint point = code_point_at(text, begin);
    if (!is_space(point.value)) break;
    begin += point.bytes;
  }
  return begin;
}

bool is_inside_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && is_word(code_point_before(text, begin).value)) ||
         (end < text.size() && is_word(code_point_at(text, end).value));
}

}  // namespace

absl::StatusOr<AddedTokens> AddedTokens::from_json(const Json& spec,
                                                   std::span<const DeclaredToken> declared,
                                                   const Vocabulary& vocabulary,
                                                   const Normalizer& normalizer) {
  AddedTokens added;
  if (!spec.is_null() && !spec.is_array()) {
    return invalid_argument("\"added_tokens\" must be a list");
  }
  for (const Json& token : spec) RETURN_IF_ERROR(added.add(token, vocabulary));
  for (const DeclaredToken& token : declared) RETURN_IF_ERROR(added.declare(token, vocabulary));
  RETURN_IF_ERROR(added.index(normalizer));
  return added;
}

absl::Status AddedTokens::add(const Json& spec, const Vocabulary& vocabulary) {
  const std::string where = fmt::format("added_tokens: entry {}", tokens_.size());
  AddedToken token;
  ASSIGN_OR_RETURN(token.text, string_member(spec, "content", where));
  const std::string what = fmt::format("added token \"{:.60}\"", token.text);
  if (token.text.empty()) return invalid_argument("{}: \"content\" is empty", where);
  ASSIGN_OR_RETURN(const int64_t id, int_member(spec, "id", what, 0, kMaxVocabulary - 1));
  token.id = static_cast<int32_t>(id);
  ASSIGN_OR_RETURN(token.special, bool_member(spec, "special", what, false));
  ASSIGN_OR_RETURN(token.normalized, bool_member(spec, "normalized", what, !token.special));
  ASSIGN_OR_RETURN(token.single_word, bool_member(spec, "single_word", what, false));
  ASSIGN_OR_RETURN(token.lstrip, bool_member(spec, "lstrip", what, false));
  ASSIGN_OR_RETURN(token.rstrip, bool_member(spec, "rstrip", what, false));

  // A token that is listed twice gets its first id and its last flags, as in tokenizers.
  if (const auto listed = vocabulary_.find(token.text); listed.has_value()) {
    token.id = *listed;
    if (!token.special) special_.erase(token.id);
    if (token.special) special_.insert(token.id);
    tokens_[places_[token.id]] = std::move(token);
    return absl::OkStatus();
  }

  const auto known = vocabulary.find(token.text);
  if (known.value_or(token.id) != token.id) {
    return invalid_argument("{} has two ids: {}, and {} in the model's vocabulary", what, id,
                            *known);
  }
  if (const std::string* other = vocabulary.text(token.id);
      other != nullptr && *other != token.text) {
    return invalid_argument("{} has the id {} of \"{:.60}\"", what, id, *other);
  }
  return put(std::move(token));
}

absl::Status AddedTokens::declare(const DeclaredToken& declared, const Vocabulary& vocabulary) {
  AddedToken token = declared.token;
  if (const auto known = vocabulary_.find(token.text); known.has_value()) {
    AddedToken& present = tokens_[places_[*known]];
    const bool special =
        present.special || (token.special && (declared.replaces || declared.makes_special));
    if (declared.replaces) present = std::move(token);
    present.id = *known;
    present.special = special;
    if (special) special_.insert(*known);
    return absl::OkStatus();
  }
  const auto of_model = vocabulary.find(token.text);
  const bool taken = vocabulary_.text(token.id) != nullptr;
  if (taken && !declared.replaces) return absl::OkStatus();  // Its id is taken.
  if (of_model.has_value()) {
    token.id = *of_model;
  } else if (token.id < 0 || token.id >= kMaxVocabulary || taken ||
             vocabulary.text(token.id) != nullptr) {
    token.id = std::max(vocabulary.size(), vocabulary_.size());
  }
  return put(std::move(token));
}

absl::Status AddedTokens::put(AddedToken token) {
  RETURN_IF_ERROR(vocabulary_.add(token.text, token.id));
  if (token.special) special_.insert(token.id);
  places_[token.id] = tokens_.size();
  tokens_.push_back(std::move(token));
  return absl::OkStatus();
}

absl::Status AddedTokens::index(const Normalizer& normalizer) {
  // If two tokens have the same normalized text, the reference may find either. We find the first
  // special one, else the first.
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      std::string text = token.text;
      bool at_start = true;
      if (token.normalized) RETURN_IF_ERROR(normalizer.normalize(&text, &at_start));
      (token.normalized ? normalized_ : raw_).add(text, static_cast<int32_t>(i));
      const auto same = vocabulary_.find(text);
      shown_[token.id] = {text, same.has_value() && is_special(*same)};
    }
  }
  return absl::OkStatus();
}

std::vector<Segment> AddedTokens::split(std::string_view text, const StringTrie& trie,
                                        const IsToken& is_token) const {
  if (text.empty()) return {};
  if (trie.empty()) return {{-1, 0, text.size()}};
  std::vector<Segment> segments;
  size_t covered = 0;
  size_t run_begin = 1, run_end = 0;  // The blanks scanned last: not scanned again.
  for (size_t offset = 0; offset < text.size();) {
    const StringTrie::Match match = trie.find_at(text, offset);
    if (match.value < 0) {
      ++offset;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    size_t begin = offset;
    size_t end = offset + match.bytes;
    offset = end;
    if (token.special && !is_token(begin, end)) continue;
    if (token.single_word && is_inside_word(text, begin, end)) continue;
    if (token.lstrip)
      begin = std::max(blanks_begin(text, begin, std::min(covered, begin)), covered);
    if (token.rstrip) {
      const bool known = run_begin <= end && end <= run_end;
      if (!known) run_begin = end, run_end = blanks_end(text, end);
      end = run_end;
    }
    if (covered < begin) segments.push_back({-1, covered, begin});
    if (begin < end) segments.push_back({token.id, begin, end});
    covered = end;
  }
  if (covered != text.size()) segments.push_back({-1, covered, text.size()});
  return segments;
}

std::vector<Segment> AddedTokens::split_marked(const MarkedText& text,
                                               const StringTrie& trie) const {
  std::vector<size_t> cuts;  // Borders between parts, inside possible tokens.
  const std::vector<Segment> segments = split(text.bytes, trie, [&](size_t begin, size_t end) {
    const std::vector<MarkedPiece> pieces = pieces_of(text, begin, end);
    for (size_t i = 1; i < pieces.size(); ++i) cuts.push_back(pieces[i].begin);
    return pieces.size() == 1 && !pieces[0].from_request;
  });
  std::vector<Segment> finer;
  auto cut = cuts.begin();
  for (Segment segment : segments) {
    for (; cut != cuts.end() && *cut < segment.end; ++cut) {
      if (segment.id >= 0 || *cut <= segment.begin) continue;
      finer.push_back({-1, segment.begin, *cut});
      segment.begin = *cut;
    }
    finer.push_back(segment);
  }
  return finer;
}

}  // namespace lockstep
