// SPDX-License-Identifier: Apache-2.0
// The keys of one config.json, read by a family's function from top to bottom. The first invalid
// value is recorded as the error and replaced by a valid one, so that the function can continue;
// finish() returns the error. A key that is neither read nor harmless by a rule (key_rules.h) is an
// error, too.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"

namespace lockstep {

class Checkpoint;

inline constexpr int64_t kMaxWidth = 1 << 20;      // Columns of any value.
inline constexpr int64_t kMaxPositions = 1 << 24;  // Positions of any sequence.

// The origin of the keys.
struct KeySource {
  std::filesystem::path folder = {};  // The checkpoint; its tensors may give sizes. "": none.
  std::string object = "";            // The file's member that has the keys; "": its top level.
  Json beside = Json::object();       // Relevant members of the file outside that member.
  Json ignored = Json::object();      // Keys that the user ignores, and their values.
  Json defaults = Json::object();     // For missing keys; used before the family's defaults.
  bool (*known)(std::string_view key) = nullptr;  // Whether any family reads the key.
};

class Keys {
 public:
  explicit Keys(Json json, KeySource source = {});

  // --- Getters. `fallback` is used if the key is missing or null; without it that is an error.
  int64_t count(std::string_view key, int64_t max, std::optional<int64_t> fallback = std::nullopt) {
    return integer(key, 1, max, fallback);
  }
  int64_t integer(std::string_view key, int64_t min, int64_t max,
                  std::optional<int64_t> fallback = std::nullopt);
  double number(std::string_view key, double min, double max,
                std::optional<double> fallback = std::nullopt);
  float factor(std::string_view key, double fallback = 1);  // From 1e-6 to 1e6.
  // Like factor(), but 0 for null, and for a missing key if `fallback` is 0.
  float cap(std::string_view key, double fallback = 0);
  float eps(double fallback);  // rms_norm_eps.
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);
  // A list of `size` entries; empty if the key is missing or null.
  Json list(std::string_view key, size_t size);
  // The layers in a list; none if the key is missing or null.
  std::vector<size_t> layers(std::string_view key, int64_t layers);
  // The value as it is; null if the key is missing.
  const Json& json(std::string_view key);
  bool has(std::string_view key) { return !json(key).is_null(); }
  // True if the file does not have the key and there is no default. A key with the value null
  // counts as in the file.
  bool is_missing(std::string_view key);

  // --- Statements. `keys` are separated by blanks.
  // The checkpoint's name for `ours` is `published`. If the config has both, they must be equal,
  // unless `wins`: then the value of `published` replaces that of `ours`.
  void rename(std::string_view published, std::string_view ours, bool wins = false);
  // A JSON object of values for keys that are missing or null.
  void defaults(const char* json);
  // If num_hidden_layers is missing or null, uses the length of a list with one entry per layer.
  void count_layers();
  // If the key is missing or null, uses the size of the tensor's dimension.
  void default_from_tensor(std::string_view key, std::string_view tensor, size_t dimension);
  // Only these values are supported. A later call for the same key replaces an earlier one.
  void only(std::string_view keys, const Json& value) { only_one_of(keys, Json::array({value})); }
  void only_one_of(std::string_view keys, Json values);
  // Keys that the model's published code reads but that have no effect here; a * is any text.
  void ignore(std::string_view keys);
  // Refuses a key: "key: message", with the key's name in the file.
  template <typename... Args>
  void fail(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    refuse(key, fmt::format(format, std::forward<Args>(args)...));
  }
  void fail(const absl::Status& status);  // Its message begins with "key: " or "key.member: ".
  // Reads the members of the object `key` through another Keys. An error of that Keys is an error
  // here, too.
  void inside(std::string_view key, const std::function<void(Keys&)>& read);

  absl::Status finish();
  // Every key that was read or named so far, sorted.
  const std::set<std::string, std::less<>>& names() const { return names_; }

 private:
  void refuse(std::string_view key, const std::string& message);
  void check_only();
  std::string published(std::string_view key) const;

  Json json_;
  KeySource source_;
  std::shared_ptr<const Checkpoint> checkpoint_;  // Opened once, for sizes of tensors.
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> patterns_;                // The patterns of ignore().
  std::map<std::string, std::string, std::less<>> published_;  // By our names, if they differ.
  std::map<std::string, Json, std::less<>> only_;
  absl::Status error_;
};

// An error of one line that names all keys, with the flags that ignore them. OK if there are none.
struct UnknownKeys {
  std::string inside;  // The path to the keys: "text_config." or "".
  Json keys;
};
absl::Status refuse_unknown(std::span<const UnknownKeys> unknown);

}  // namespace lockstep
