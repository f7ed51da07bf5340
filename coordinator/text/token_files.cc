// SPDX-License-Identifier: Apache-2.0
// The files are merged as in transformers 5.24 (PreTrainedTokenizerBase._from_pretrained,
// TokenizersBackend). If tokenizer_config.json has "added_tokens_decoder", that list is complete,
// and the two older files are ignored. The list's tokens get ids first, then tokens with a name,
// then extra tokens.
#include "coordinator/text/token_files.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/json.h"
#include "base/system/file.h"
#include "base/text_map.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

constexpr char kConfig[] = "tokenizer_config.json";
constexpr char kMap[] = "special_tokens_map.json";
constexpr char kAdded[] = "added_tokens.json";

constexpr char kDecoder[] = "added_tokens_decoder";
constexpr char kExtra[] = "extra_special_tokens";
constexpr char kAdditional[] = "additional_special_tokens";  // The older name of kExtra.

absl::StatusOr<OrderedJson> parse_object(std::string_view text, const char* file) {
  if (text.empty()) return OrderedJson::object();
  ASSIGN_OR_RETURN(OrderedJson json,
                   parse_ordered_json(text, file, {.reject_duplicate_keys = false}));
  if (json.is_object()) return json;
  return invalid_argument("{}: must be an object, found {}", file, describe(json));
}

bool says_something(const OrderedJson& json, const char* key) {
  return json.contains(key) && !json[key].empty();
}

// A token is its text, or an object with its text and flags.
bool is_token(const OrderedJson& value) {
  return value.is_string() ||
         (value.is_object() && value.contains("content") && value["content"].is_string());
}

absl::StatusOr<AddedToken> token_of(const OrderedJson& value, bool special) {
  if (!is_token(value)) {
    return invalid_argument("must be a text or an object with \"content\", found {}",
                            describe(value));
  }
  if (value.is_string()) return AddedToken{.text = value.get<std::string>(), .special = special};
  const Json object = value;
  AddedToken token{.text = object["content"].get<std::string>()};
  ASSIGN_OR_RETURN(token.special, get_bool(object, "special", special));
  ASSIGN_OR_RETURN(token.normalized, get_bool(object, "normalized", !token.special));
  ASSIGN_OR_RETURN(token.single_word, get_bool(object, "single_word", false));
  ASSIGN_OR_RETURN(token.lstrip, get_bool(object, "lstrip", false));
  ASSIGN_OR_RETURN(token.rstrip, get_bool(object, "rstrip", false));
  return token;
}

bool is_common_name(std::string_view name) {
  return std::ranges::find(kTokenNames, name) != std::end(kTokenNames);
}

bool is_other_name(std::string_view key) { return key.ends_with("_token") && !is_common_name(key); }

absl::Status in_key(const char* file, std::string_view key, const absl::Status& status) {
  return invalid_argument("{}: {}: {}", file, printable(key), message_of(status));
}

absl::StatusOr<int32_t> id_of(const OrderedJson& value) {
  if (value.is_number_integer() && value >= 0 && value <= INT32_MAX) return value.get<int32_t>();
  return invalid_argument("must be a token id, found {}", describe(value));
}

absl::StatusOr<int32_t> id_of_key(const std::string& key) {
  int32_t id = -1;
  const char* end = key.data() + key.size();
  if (const auto [stop, error] = std::from_chars(key.data(), end, id);
      error != std::errc() || stop != end || id < 0) {
    return invalid_argument("the key must be a token id");
  }
  return id;
}

class Merger {
 public:
  Merger(OrderedJson config, const OrderedJson& map) : config_(std::move(config)) {
    const auto use_older_name = [&] {
      if (!says_something(config_, kExtra) && config_.contains(kAdditional)) {
        config_[kExtra] = config_[kAdditional];
      }
    };
    use_older_name();
    has_decoder_ = config_.contains(kDecoder) && !config_[kDecoder].is_null();
    if (has_decoder_) return;
    for (const auto& [key, value] : map.items()) {
      if (is_other_name(key)) {
        // The names of special_tokens_map.json come first, but the value in tokenizer_config.json
        // counts.
        other_names_.push_back(key);
        if (config_.contains(key) && is_token(config_[key])) continue;
      }
      if (key == kExtra && value.is_array() && says_something(config_, kExtra) &&
          config_[kExtra].is_array()) {
        config_[kExtra].insert(config_[kExtra].end(), value.begin(), value.end());
      } else {
        config_[key] = value;
      }
    }
    use_older_name();
  }

  absl::StatusOr<TokenFiles> merge(const OrderedJson& added) {
    RETURN_IF_ERROR(read_names());
    if (has_decoder_) RETURN_IF_ERROR(read_decoder());
    RETURN_IF_ERROR(read_extra());
    if (!has_decoder_) RETURN_IF_ERROR(read_added(added));
    std::ranges::stable_sort(files_.tokens, {},
                             [](const DeclaredToken& declared) { return declared.token.id; });
    for (AddedToken& token : named_) {
      files_.tokens.push_back({.token = std::move(token), .makes_special = !has_decoder_});
    }
    for (AddedToken& token : extra_) files_.tokens.push_back({.token = std::move(token)});
    return std::move(files_);
  }

 private:
  absl::Status read_names() {
    for (const std::string_view name : kTokenNames) {
      if (config_.contains(name)) RETURN_IF_ERROR(add_name(name, config_[std::string(name)]));
    }
    for (const std::string& name : other_names_) {
      RETURN_IF_ERROR(add_name(name, config_[name]));
    }
    for (const auto& [key, value] : config_.items()) {
      if (is_other_name(key) && !files_.names.contains(key)) {
        RETURN_IF_ERROR(add_name(key, value));
      }
    }
    if (!config_.contains(kExtra) || !config_[kExtra].is_object()) return absl::OkStatus();
    for (const auto& [key, value] : config_[kExtra].items()) RETURN_IF_ERROR(add_name(key, value));
    return absl::OkStatus();
  }

  // Values of other types, such as null or the flag "add_bos_token", are not tokens.
  absl::Status add_name(std::string_view name, const OrderedJson& value) {
    if (!is_token(value)) return absl::OkStatus();
    absl::StatusOr<AddedToken> token = token_of(value, /*special=*/true);
    if (!token.ok()) return in_key(kConfig, name, token.status());
    files_.names[std::string(name)] = token->text;
    if (token->text.empty()) return absl::OkStatus();
    token->special = true;
    // The reference makes a row of added_tokens.json special only if its token has one of
    // kTokenNames.
    if (has_decoder_ || is_common_name(name)) {
      special_texts_.insert(token->text);
    }
    named_.push_back(*std::move(token));
    return absl::OkStatus();
  }

  absl::Status read_extra() {
    if (!config_.contains(kExtra) || !config_[kExtra].is_array()) return absl::OkStatus();
    for (const OrderedJson& value : config_[kExtra]) {
      absl::StatusOr<AddedToken> token = token_of(value, /*special=*/true);
      if (!token.ok()) return in_key(kConfig, kExtra, token.status());
      if (token->text.empty()) continue;
      special_texts_.insert(token->text);
      extra_.push_back(*std::move(token));
    }
    return absl::OkStatus();
  }

  absl::Status read_decoder() {
    if (!config_[kDecoder].is_object()) {
      return invalid_argument("{}: {}: must be an object, found {}", kConfig, kDecoder,
                              describe(config_[kDecoder]));
    }
    for (const auto& [key, value] : config_[kDecoder].items()) {
      absl::StatusOr<AddedToken> token = token_of(value, /*special=*/false);
      const absl::StatusOr<int32_t> id = id_of_key(key);
      for (const absl::Status& status : {token.status(), id.status()}) {
        if (!status.ok()) return in_key(kConfig, fmt::format("{}: {}", kDecoder, key), status);
      }
      token->id = *id;
      token->special = token->special || special_texts_.contains(token->text);
      if (token->text.empty()) continue;
      files_.tokens.push_back({.token = *std::move(token), .replaces = true});
    }
    return absl::OkStatus();
  }

  absl::Status read_added(const OrderedJson& added) {
    for (const auto& [text, value] : added.items()) {
      const absl::StatusOr<int32_t> id = id_of(value);
      if (!id.ok()) return in_key(kAdded, text, id.status());
      if (text.empty()) continue;
      const bool special = special_texts_.contains(text);
      files_.tokens.push_back(
          {.token = {.text = text, .id = *id, .normalized = !special, .special = special}});
    }
    return absl::OkStatus();
  }

  OrderedJson config_;  // Includes the entries of special_tokens_map.json.
  bool has_decoder_ = false;
  std::vector<std::string> other_names_;  // Names of special_tokens_map.json, not in kTokenNames.
  std::vector<AddedToken> named_;
  std::vector<AddedToken> extra_;
  TextSet<std::string> special_texts_;  // The special texts read so far.
  TokenFiles files_;
};

}  // namespace

absl::StatusOr<TokenFiles> merge_token_files(std::string_view tokenizer_config,
                                             std::string_view special_tokens_map,
                                             std::string_view added_tokens) {
  ASSIGN_OR_RETURN(OrderedJson config, parse_object(tokenizer_config, kConfig));
  ASSIGN_OR_RETURN(const OrderedJson map, parse_object(special_tokens_map, kMap));
  ASSIGN_OR_RETURN(const OrderedJson added, parse_object(added_tokens, kAdded));
  return Merger(std::move(config), map).merge(added);
}

absl::StatusOr<TokenFiles> read_token_files(const std::filesystem::path& folder) {
  std::string texts[3];
  const char* const names[] = {kConfig, kMap, kAdded};
  for (size_t i = 0; i < std::size(names); ++i) {
    std::error_code error;
    if (!std::filesystem::exists(folder / names[i], error)) continue;
    ASSIGN_OR_RETURN(texts[i], read_file(folder / names[i], kMaxFileBytes));
  }
  absl::StatusOr<TokenFiles> files = merge_token_files(texts[0], texts[1], texts[2]);
  if (files.ok()) return files;
  return invalid_argument("{}/{}", folder.string(), message_of(files.status()));
}

}  // namespace lockstep
