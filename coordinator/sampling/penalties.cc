// SPDX-License-Identifier: Apache-2.0
// Rules and counts are two lists in ascending order of ids: append() finds a count by binary
// search, and fill() merges the lists, since the message has edits in this order. fill() reads only
// rules whose edits may differ from the shared ones: a request may have as many rules as its prompt
// has tokens, and each of its choices is filled in every step.
#include "coordinator/sampling/penalties.h"

#include <algorithm>

#include "proto/logit_edits.h"

namespace lockstep {
namespace {

// Added to logits of forbidden tokens. It is finite, also after division by the smallest
// temperature, so that a block of only forbidden tokens has finite sums.
constexpr float kForbidden = -1e30f;

std::string mask_of(std::span<const int32_t> allowed, int64_t vocab) {
  if (allowed.empty()) return "";
  std::string mask(static_cast<size_t>((vocab + 63) / 64 * 8), '\0');
  for (const int32_t id : allowed) {
    if (id < 0 || id >= vocab) continue;
    char& bits = mask[static_cast<size_t>(id / 8)];
    bits = static_cast<char>(bits | 1 << id % 8);
  }
  return mask;
}

}  // namespace

LogitRules::LogitRules(const SamplingParams& params, std::span<const int32_t> prompt,
                       std::span<const int32_t> stop_ids, int64_t vocab)
    : bad_words_(params.bad_words),
      mask_(mask_of(params.allowed_ids, vocab)),
      repetition_(params.repetition_penalty),
      presence_(params.presence_penalty),
      frequency_(params.frequency_penalty) {
  for (const int32_t id : stop_ids) rules_.push_back({.id = id, .stop = true});
  for (const auto& [id, bias] : params.logit_bias) rules_.push_back({.id = id, .bias = bias});
  const auto last_id = [](const std::vector<int32_t>& word) { return word.back(); };
  std::ranges::sort(bad_words_, {}, last_id);
  for (int32_t i = 0; i < std::ssize(bad_words_); ++i) {
    const std::vector<int32_t>& word = bad_words_[static_cast<size_t>(i)];
    rules_.push_back({.id = word.back(), .first_bad_word = i, .bad_words = 1});
    longest_prefix_ = std::max(longest_prefix_, word.size() - 1);
  }
  if (repetition_ != 1) {
    for (const int32_t id : prompt) rules_.push_back({.id = id, .in_prompt = true});
  }
  std::erase_if(rules_, [vocab](const Rule& rule) { return rule.id < 0 || rule.id >= vocab; });
  std::sort(rules_.begin(), rules_.end(), [](const Rule& a, const Rule& b) { return a.id < b.id; });
  size_t kept = 0;
  for (const Rule& rule : rules_) {  // Merge the rules of one id.
    if (kept == 0 || rules_[kept - 1].id != rule.id) {
      rules_[kept++] = rule;
      continue;
    }
    Rule& joined = rules_[kept - 1];
    joined.in_prompt = joined.in_prompt || rule.in_prompt;
    joined.stop = joined.stop || rule.stop;
    if (joined.bad_words == 0 ||
        (rule.bad_words > 0 && rule.first_bad_word < joined.first_bad_word)) {
      joined.first_bad_word = rule.first_bad_word;
    }
    joined.bad_words += rule.bad_words;
    if (rule.bias != 0) joined.bias = rule.bias;
  }
  rules_.resize(kept);
  rules_.shrink_to_fit();
  for (const Rule& rule : rules_) {
    if (rule.stop || rule.bad_words > 0) {
      conditional_.push_back(static_cast<int32_t>(&rule - rules_.data()));
    }
    append_edit(rule, 0, /*is_forbidden=*/false, &shared_edits_);
  }
}

int32_t LogitRules::find(int32_t id) const {
  const auto rule = std::ranges::lower_bound(rules_, id, {}, &Rule::id);
  if (rule == rules_.end() || rule->id != id) return -1;
  return static_cast<int32_t>(rule - rules_.begin());
}

bool LogitRules::completes_bad_word(const Rule& rule, std::span<const int32_t> before) const {
  const auto words =
      std::span(bad_words_)
          .subspan(static_cast<size_t>(rule.first_bad_word), static_cast<size_t>(rule.bad_words));
  return std::ranges::any_of(words, [&](const std::vector<int32_t>& word) {
    const std::span<const int32_t> prefix(word.data(), word.size() - 1);
    return prefix.size() <= before.size() && std::ranges::equal(prefix, before.last(prefix.size()));
  });
}

void LogitRules::append_edit(const Rule& rule, int32_t generated, bool is_forbidden,
                             cluster::LogitEdits* edits) const {
  const double add = static_cast<double>(rule.bias) - (generated > 0 ? presence_ : 0.0) -
                     static_cast<double>(frequency_) * generated;
  const bool repeated = repetition_ != 1 && (rule.in_prompt || generated > 0);
  if (!is_forbidden && !repeated && add == 0 && rule.bias == 0) return;
  add_edit(rule.id, repeated ? repetition_ : 1, is_forbidden ? kForbidden : static_cast<float>(add),
           edits);
}

void Penalties::append(int32_t id) {
  if (const size_t wanted = rules_.longest_prefix(); wanted > 0) {
    if (last_.size() == wanted) last_.erase(last_.begin());
    last_.push_back(id);
  }
  if (!rules_.counting()) return;
  auto place = std::ranges::lower_bound(counts_, id, {}, &Count::id);
  if (place == counts_.end() || place->id != id) {
    place = counts_.insert(place, {.id = id, .rule = rules_.find(id)});
  }
  ++place->generated;
}

void Penalties::fill(bool forbid_stops, cluster::Output* output) const {
  output->set_mask(rules_.mask());
  const std::span<const LogitRules::Rule> rules = rules_.rules();
  auto conditional = rules_.conditional().begin();
  const auto last_conditional = rules_.conditional().end();
  auto count = counts_.begin();
  while (conditional != last_conditional || count != counts_.end()) {
    const auto rule_id = [&] { return rules[static_cast<size_t>(*conditional)].id; };
    const bool ruled =
        conditional != last_conditional && (count == counts_.end() || rule_id() <= count->id);
    const bool counted = count != counts_.end() && (!ruled || rule_id() == count->id);
    const int32_t index = ruled ? *conditional : count->rule;
    const LogitRules::Rule plain = {.id = counted ? count->id : 0};
    const LogitRules::Rule& rule = index < 0 ? plain : rules[static_cast<size_t>(index)];
    const bool is_forbidden = (forbid_stops && rule.stop) || rules_.completes_bad_word(rule, last_);
    if (is_forbidden || counted) {
      rules_.append_edit(rule, counted ? count->generated : 0, is_forbidden,
                         output->mutable_edits());
    }
    if (ruled) ++conditional;
    if (counted) ++count;
  }
}

}  // namespace lockstep
