// SPDX-License-Identifier: Apache-2.0
// The keys of one config.json, read by a family's function from top to bottom. A value that is
// wrong records the first error and gives a valid one in its place, so that the function goes on;
// finish() returns that error. A key that is not read and that no rule (key_rules.h) calls
// harmless is an error, too.
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
inline constexpr int64_t kMaxPositions = 1 << 24;  // Of any sequence.

// The origin of the keys.
struct KeySource {
  std::filesystem::path folder = {};  // The checkpoint's, which may have sizes; "": none.
  std::string object = "";            // The member of the file that has the keys; "": the file.
  Json beside = Json::object();       // Other members of the file that may matter.
  Json ignored = Json::object();      // Keys that the user said to ignore, and their values.
  Json defaults = Json::object();     // Values of missing keys, before those of the family.
  bool (*known)(std::string_view key) = nullptr;  // Whether any family reads the key.
};

class Keys {
 public:
  explicit Keys(Json json, KeySource source = {});

  // --- Getters. `fallback` holds where the key is missing or null; without one that is an error.
  int64_t count(std::string_view key, int64_t max, std::optional<int64_t> fallback = std::nullopt) {
    return integer(key, 1, max, fallback);
  }
  int64_t integer(std::string_view key, int64_t min, int64_t max,
                  std::optional<int64_t> fallback = std::nullopt);
  double number(std::string_view key, double min, double max,
                std::optional<double> fallback = std::nullopt);
  float factor(std::string_view key, double fallback = 1);  // From 1e-6 to 1e6.
  float cap(std::string_view key, double fallback = 0);     // The same; null, or missing and 0: 0.
  float eps(double fallback);                               // rms_norm_eps.
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);
  // A list of `size` entries; an empty one where the key is missing or null.
  Json list(std::string_view key, size_t size);
  // The layers that a list names; none where the key is missing or null.
  std::vector<size_t> layers(std::string_view key, int64_t layers);
  // The value as it is; null where the key is missing.
  const Json& json(std::string_view key);
  bool has(std::string_view key) { return !json(key).is_null(); }
  bool is_missing(std::string_view key);  // Neither there nor null nor given by a default.

  // --- Statements. `keys` are separated by blanks.
  // The checkpoint calls ours `published`. Where both are there, they must say the same, unless the
  // published one wins.
  void rename(std::string_view published, std::string_view ours, bool wins = false);
  // A JSON object of values for keys that are missing or null.
  void defaults(const char* json);
  // A list by layer says how many layers there are, if num_hidden_layers is missing or null.
  void count_layers();
  // The size is that of the tensor's dimension where the key is missing or null.
  void default_from_tensor(std::string_view key, std::string_view tensor, size_t dimension);
  // These values alone are supported. The last statement of a key holds.
  void only(std::string_view keys, const Json& value) { only_one_of(keys, Json::array({value})); }
  void only_one_of(std::string_view keys, Json values);
  // The reference reads these, and they change nothing here; a * is any text.
  void ignore(std::string_view keys);
  // A refusal: "key: message", under the name that the file has for the key.
  template <typename... Args>
  void fail(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    refuse(key, fmt::format(format, std::forward<Args>(args)...));
  }
  void fail(const absl::Status& status);  // Its message begins with "key: " or "key.member: ".
  // The members of the object `key`, read as keys; what is wrong with them is an error of these.
  void inside(std::string_view key, const std::function<void(Keys&)>& read);

  absl::Status finish();
  // Every key that was asked for or named so far, in the order of the alphabet.
  const std::set<std::string, std::less<>>& names() const { return names_; }

 private:
  void refuse(std::string_view key, const std::string& message);
  void check_only();
  std::string published(std::string_view key) const;

  Json json_;
  KeySource source_;
  std::shared_ptr<const Checkpoint> checkpoint_;  // Opened once, for sizes of tensors.
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> patterns_;                // Those of ignore().
  std::map<std::string, std::string, std::less<>> published_;  // By our names, if they differ.
  std::map<std::string, Json, std::less<>> only_;
  absl::Status error_;
};

// One line that names all keys, with the flags that ignore them; `inside` is the path to them,
// "text_config." or "". Ok where there are none.
struct UnknownKeys {
  std::string inside;
  Json keys;
};
absl::Status refuse_unknown(std::span<const UnknownKeys> unknown);

}  // namespace lockstep
