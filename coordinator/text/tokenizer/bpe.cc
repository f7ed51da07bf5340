// SPDX-License-Identifier: Apache-2.0
// Symbols are a linked list, candidate merges a heap. If the pair of an entry has changed, the
// entry is dropped when it is popped.
#include "coordinator/text/tokenizer/bpe.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "coordinator/text/tokenizer/spec.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

constexpr size_t kMaxMerges = 4'000'000;

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

absl::StatusOr<Bpe> Bpe::from_json(const Json& spec) {
  // Old files have no type; Hugging Face tokenizers then recognise BPE by its merges.
  const std::string type = member(spec, "type").is_string()
                               ? member(spec, "type").get<std::string>()
                           : member(spec, "merges").is_array() ? "BPE"
                                                               : "";
  if (type != "BPE") {
    return invalid_argument("model \"{:.60}\" is not supported; supported: BPE", type);
  }
  Bpe bpe;
  RETURN_IF_ERROR(bpe.read_options(spec));
  RETURN_IF_ERROR(bpe.read_vocabulary(member(spec, "vocab")));
  RETURN_IF_ERROR(bpe.read_merges(member(spec, "merges")));
  if (!bpe.unk_token_.empty()) bpe.unk_id_ = bpe.vocabulary_.find(bpe.unk_token_);
  bpe.index_characters();
  return bpe;
}

absl::Status Bpe::read_options(const Json& spec) {
  const Json& dropout = member(spec, "dropout");
  if (!dropout.is_null() && dropout != 0.0) {
    return invalid_argument("model: \"dropout\" must be null or 0: encoding must not be random");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::string affix, string_member(spec, key, "model", ""));
    if (!affix.empty()) {
      return invalid_argument("model: \"{}\" other than null is not supported, found \"{:.40}\"",
                              key, affix);
    }
  }
  ASSIGN_OR_RETURN(unk_token_, string_member(spec, "unk_token", "model", ""));
  ASSIGN_OR_RETURN(fuse_unk_, bool_member(spec, "fuse_unk", "model", false));
  ASSIGN_OR_RETURN(byte_fallback_, bool_member(spec, "byte_fallback", "model", false));
  ASSIGN_OR_RETURN(ignore_merges_, bool_member(spec, "ignore_merges", "model", false));
  return absl::OkStatus();
}

absl::Status Bpe::read_vocabulary(const Json& vocabulary) {
  if (!vocabulary.is_object()) return invalid_argument("model: \"vocab\" must be an object");
  if (vocabulary.size() > static_cast<size_t>(kMaxVocabulary)) {
    return invalid_argument("model: \"vocab\" must have at most {} tokens, found {}",
                            kMaxVocabulary, vocabulary.size());
  }
  for (const auto& [text, id] : vocabulary.get_ref<const Json::object_t&>()) {
    if (!id.is_number_integer() || id < 0 || id >= kMaxVocabulary) {
      return invalid_argument("model: vocab: token \"{:.60}\": its id must be in 0 to {}", text,
                              kMaxVocabulary - 1);
    }
    RETURN_IF_ERROR(vocabulary_.add(text, id.get<int64_t>()));
  }
  return vocabulary_.check_dense();
}

absl::Status Bpe::read_merges(const Json& merges) {
  if (!merges.is_array()) return invalid_argument("model: \"merges\" must be a list");
  if (merges.size() > kMaxMerges) {
    return invalid_argument("model: \"merges\" must have at most {} entries, found {}", kMaxMerges,
                            merges.size());
  }
  ranks_.reserve(merges.size());
  merged_.reserve(merges.size());
  for (const Json& merge : merges) {
    if (merge.is_string()) {
      const std::string_view line = merge.get_ref<const std::string&>();
      if (line.starts_with("#version")) continue;
      const size_t blank = line.find(' ');
      if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
        return invalid_argument("model: merge \"{:.80}\" must be two tokens and one blank", line);
      }
      RETURN_IF_ERROR(add_merge(line.substr(0, blank), line.substr(blank + 1)));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      RETURN_IF_ERROR(add_merge(merge[0].get_ref<const std::string&>(),
                                merge[1].get_ref<const std::string&>()));
    } else {
      return invalid_argument("model: merge {} must be a string or a list of two strings",
                              merged_.size());
    }
  }
  return absl::OkStatus();
}

absl::Status Bpe::add_merge(std::string_view left, std::string_view right) {
  const std::string joined = fmt::format("{}{}", left, right);
  for (std::string_view token : {left, right, std::string_view(joined)}) {
    if (!vocabulary_.find(token).has_value()) {
      return invalid_argument(
          "model: merge {} (\"{:.40}\" and \"{:.40}\") needs \"{:.80}\", which is "
          "not in the vocabulary",
          merged_.size(), left, right, token);
    }
  }
  const auto rank = static_cast<uint32_t>(merged_.size());
  // The last of two equal merges counts, as in tokenizers.
  ranks_[pair_key(*vocabulary_.find(left), *vocabulary_.find(right))] = rank;
  merged_.push_back(*vocabulary_.find(joined));
  return absl::OkStatus();
}

void Bpe::index_characters() {
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string* text = vocabulary_.text(id);
    if (text == nullptr || text->empty()) continue;
    const CodePoint point = code_point_at(*text, 0);
    if (point.bytes == text->size()) characters_.emplace(point.value, id);
  }
  if (!byte_fallback_) return;
  for (int byte = 0; byte < 256; ++byte) {
    bytes_[static_cast<size_t>(byte)] =
        vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
}

std::optional<uint32_t> Bpe::rank_of(int32_t left, int32_t right) const {
  const auto found = ranks_.find(pair_key(left, right));
  if (found == ranks_.end()) return std::nullopt;
  return found->second;
}

absl::Status Bpe::split_characters(std::string_view word,
                                   std::vector<Scratch::Symbol>* symbols) const {
  const auto add = [&](int32_t id) {
    const auto index = static_cast<int32_t>(symbols->size());
    symbols->push_back({id, index - 1, index + 1});
  };
  // An unk_token is added only before the next known character, as in tokenizers. If a later
  // character falls back to its bytes, these bytes are therefore before the unk_token.
  bool unk_waits = false;
  for (size_t offset = 0; offset < word.size();) {
    const CodePoint point = code_point_at(word, offset);
    const std::string_view bytes = word.substr(offset, point.bytes);
    offset += point.bytes;
    if (const auto known = characters_.find(point.value); known != characters_.end()) {
      if (unk_waits) add(*unk_id_);
      unk_waits = false;
      add(known->second);
      continue;
    }
    const auto token_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
    if (byte_fallback_ &&
        std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return token_of(byte) >= 0; })) {
      for (const char byte : bytes) add(token_of(byte));
      continue;
    }
    if (unk_token_.empty()) continue;  // tokenizers drop the character, too.
    if (!unk_id_.has_value()) {
      return invalid_argument(
          "no token for \"{}\", and the unk_token \"{:.60}\" is not in the vocabulary", bytes,
          unk_token_);
    }
    if (unk_waits && !fuse_unk_) add(*unk_id_);
    unk_waits = true;
  }
  if (unk_waits) add(*unk_id_);
  if (!symbols->empty()) symbols->back().next = -1;
  return absl::OkStatus();
}

void Bpe::enqueue(int32_t position, Scratch* scratch) const {
  const auto& symbols = scratch->symbols;
  const Scratch::Symbol& left = symbols[static_cast<size_t>(position)];
  const auto rank = rank_of(left.id, symbols[static_cast<size_t>(left.next)].id);
  if (!rank.has_value()) return;
  scratch->queue.push_back(static_cast<uint64_t>(*rank) << 32 | static_cast<uint32_t>(position));
}

void Bpe::merge_all(Scratch* scratch) const {
  auto& symbols = scratch->symbols;
  auto& queue = scratch->queue;
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) enqueue(static_cast<int32_t>(i), scratch);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());

  constexpr int32_t kGone = -1;
  const auto push = [&](int32_t position) {
    const size_t before = queue.size();
    enqueue(position, scratch);
    if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(queue.back() >> 32);
    const auto position = static_cast<int32_t>(queue.back() & 0xFFFFFFFF);
    queue.pop_back();
    Scratch::Symbol& left = symbols[static_cast<size_t>(position)];
    if (left.id == kGone || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    // Skips an expired entry. The merged token is compared, not the pair, as in tokenizers: if
    // two pairs make the same token, either entry merges the current pair.
    const auto current = rank_of(left.id, right.id);
    if (!current.has_value() || merged_[*current] != merged_[rank]) continue;

    left.id = merged_[rank];
    right.id = kGone;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = position;
    if (left.previous >= 0) push(left.previous);
    if (left.next >= 0) push(position);
  }
}

absl::Status Bpe::encode(std::string_view word, Scratch* scratch, std::vector<int32_t>* ids) const {
  LOCKSTEP_CHECK(word.size() < INT32_MAX);
  if (ignore_merges_) {
    if (const auto whole = vocabulary_.find(word); whole.has_value()) {
      ids->push_back(*whole);
      return absl::OkStatus();
    }
  }
  auto& symbols = scratch->symbols;
  symbols.clear();
  RETURN_IF_ERROR(split_characters(word, &symbols));
  if (symbols.empty()) return absl::OkStatus();
  merge_all(scratch);
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    ids->push_back(symbols[static_cast<size_t>(i)].id);
  }
  return absl::OkStatus();
}

}  // namespace lockstep
