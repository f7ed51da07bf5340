// SPDX-License-Identifier: Apache-2.0
#include "models/config/keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/first_names.h"
#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "models/config/key_rules.h"
#include "models/config/size_names.h"

namespace lockstep {
namespace {

std::vector<std::string> words(const std::string& keys) {
  std::istringstream stream(keys);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string text_of(const Json& found) { return found.is_null() ? "nothing" : describe(found); }

}  // namespace

Keys::Keys(Json json, KeySource source) : json_(std::move(json)), source_(std::move(source)) {
  ignore("architectures");
}

const Json& Keys::json(std::string_view key) {
  static const Json kNull;
  names_.emplace(key);
  // Some published configs spell a key X as "_X".
  if (key[0] != '_') rename("_" + std::string(key), key);
  const auto found = json_.find(std::string(key));
  if (found != json_.end() && !found->is_null()) return *found;
  const auto fallback = source_.defaults.find(std::string(key));
  return fallback == source_.defaults.end() ? kNull : *fallback;
}

bool Keys::is_missing(std::string_view key) {
  return !has(key) && !json_.contains(std::string(key));
}

int64_t Keys::integer(std::string_view key, int64_t min, int64_t max,
                      std::optional<int64_t> fallback) {
  const Json& found = json(key);
  const bool given = !found.is_null();
  const bool fits = found.is_number_unsigned() && found.get<uint64_t>() > INT64_MAX
                        ? false
                        : found.is_number_integer();
  const int64_t value = fits ? found.get<int64_t>() : fallback.value_or(min);
  const bool right = given ? fits : fallback.has_value();
  if (right && value >= min && value <= max) return value;
  fail(key, "must be an integer from {} to {}, found {}", min, max,
       right ? std::to_string(value) : text_of(found));
  return std::max(min, std::min(value, max));
}

double Keys::number(std::string_view key, double min, double max, std::optional<double> fallback) {
  const Json& found = json(key);
  const bool given = !found.is_null();
  const double value = found.is_number() ? found.get<double>() : fallback.value_or(min);
  const bool right = given ? found.is_number() : fallback.has_value();
  if (right && value >= min && value <= max) return value;
  fail(key, "must be a number from {} to {}, found {}", min, max,
       right ? fmt::format("{}", value) : text_of(found));
  return std::max(min, std::min(value, max));
}

float Keys::factor(std::string_view key, double fallback) {
  return static_cast<float>(number(key, 1e-6, 1e6, fallback));
}

float Keys::cap(std::string_view key, double fallback) {
  if (!has(key) && (fallback == 0 || !is_missing(key))) return 0;
  return factor(key, fallback);
}

float Keys::eps(double fallback) {
  return static_cast<float>(number("rms_norm_eps", 1e-30, 0.1, fallback));
}

bool Keys::flag(std::string_view key, bool fallback) {
  const Json& found = json(key);
  if (found.is_boolean()) return found.get<bool>();
  if (!found.is_null()) fail(key, "must be true or false, found {}", describe(found));
  return fallback;
}

std::string Keys::text(std::string_view key, std::string_view fallback) {
  const Json& found = json(key);
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_null()) fail(key, "must be a string, found {}", describe(found));
  return std::string(fallback);
}

Json Keys::list(std::string_view key, size_t size) {
  const Json& found = json(key);
  if (found.is_null()) return Json::array();
  if (found.is_array() && found.size() == size) return found;
  fail(key, "must be a list of {} layers, found {}", size,
       found.is_array() ? std::to_string(found.size()) : describe(found));
  return Json::array();
}

std::vector<size_t> Keys::layers(std::string_view key, int64_t layers) {
  std::vector<size_t> listed;
  const Json& found = json(key);
  if (found.is_null()) return listed;
  if (!found.is_array()) fail(key, "must be a list of layers, found {}", describe(found));
  for (const Json& layer : found) {
    if (!layer.is_number_integer() || layer < 0 || layer >= layers) {
      fail(key, "must be layers from 0 to {}, found {}", layers - 1, describe(layer));
      return listed;
    }
    listed.push_back(layer.get<size_t>());
  }
  return listed;
}

void Keys::rename(std::string_view published, std::string_view ours, bool wins) {
  const auto found = json_.find(std::string(published));
  if (found == json_.end()) return;
  const Json value = *found;
  json_.erase(found);
  Json& own = json_[std::string(ours)];
  published_.emplace(ours, published);
  if (value.is_null()) return;
  if (!own.is_null() && own != value && !wins && error_.ok()) {
    error_ = invalid_argument("{} and {} are both there and differ: keep one", published, ours);
  }
  own = value;
}

void Keys::defaults(const char* json) {
  Json more = Json::parse(json);
  more.update(source_.defaults);
  source_.defaults = std::move(more);
}

void Keys::count_layers() {
  for (const char* key : {"layers_block_type", "layer_types"}) {
    const Json layers = json_.value(key, Json());
    Json& count = json_["num_hidden_layers"];
    if (count.is_null() && layers.is_array()) count = layers.size();
  }
}

void Keys::default_from_tensor(std::string_view key, std::string_view tensor, size_t dimension) {
  if (has(key) || source_.folder.empty()) return;
  if (checkpoint_ == nullptr) {
    absl::StatusOr<Checkpoint> opened = Checkpoint::open(source_.folder);
    if (!opened.ok()) return;
    checkpoint_ = std::make_shared<const Checkpoint>(*std::move(opened));
  }
  const TensorInfo* found = checkpoint_->find(tensor);
  if (found != nullptr && dimension < found->shape.size()) {
    json_[std::string(key)] = found->shape[dimension];
  }
}

void Keys::only_one_of(std::string_view keys, Json values) {
  for (const std::string& key : words(std::string(keys))) {
    json(key);
    only_.insert_or_assign(key, values);
  }
}

void Keys::ignore(std::string_view keys) {
  for (const std::string& key : words(std::string(keys))) {
    if (key.find('*') == std::string::npos)
      json(key);
    else
      patterns_.insert(key);
  }
}

void Keys::inside(std::string_view key, const std::function<void(Keys&)>& read) {
  const Json& found = json(key);
  if (!found.is_null() && !found.is_object()) {
    return fail(key, "must be an object, found {}", describe(found));
  }
  Keys members(found.is_null() ? Json::object() : found, {.object = std::string(key)});
  read(members);
  members.check_only();
  if (!members.error_.ok()) return fail(key, ".{}", message_of(members.error_));
  if (error_.ok()) error_ = members.finish();
}

void Keys::fail(const absl::Status& status) {
  if (status.ok() || !error_.ok()) return;
  std::string message = message_of(status);
  const size_t end = std::min(message.find_first_of(":."), message.size());
  error_ = invalid_argument("{}{}", published(message.substr(0, end)), message.substr(end));
}

void Keys::refuse(std::string_view key, const std::string& message) {
  if (!error_.ok()) return;
  const bool member = message.starts_with('.');
  error_ = invalid_argument("{}{}{}", published(key), member ? "" : ": ", message);
}

std::string Keys::published(std::string_view key) const {
  const auto found = published_.find(key);
  return found == published_.end() ? std::string(key) : found->second;
}

void Keys::check_only() {
  for (const auto& [key, values] : only_) {
    const Json& found = json(key);
    if (found.is_null() || std::ranges::find(values, found) != values.end()) continue;
    fail(key, "{} is not supported; supported: {}", describe(found),
         values.size() == 1 ? values[0].dump() : values.dump());
  }
}

absl::Status refuse_unknown(std::span<const UnknownKeys> unknown) {
  constexpr size_t kMaxNamed = 32;
  std::vector<std::string> names, values, flags;
  for (const auto& [inside, keys] : unknown) {
    for (const auto& [key, value] : keys.items()) {
      names.push_back(inside + printable(key));
      values.push_back(describe(value));
      flags.push_back("--ignore-config " + names.back());
    }
  }
  if (names.empty()) return absl::OkStatus();
  for (auto* list : {&values, &flags}) list->resize(std::min(names.size(), kMaxNamed));
  return invalid_argument(
      "{}: unknown here and may change what the model computes (found {}); {} runs without {}",
      first_names(names, kMaxNamed), fmt::join(values, ", "), fmt::join(flags, " "),
      names.size() == 1 ? "it" : "them");
}

absl::Status Keys::finish() {
  for (const auto& [key, value] : source_.ignored.items()) {
    RETURN_IF_ERROR(check_ignored_size(key, value, json_, names_));
  }
  check_only();
  RETURN_IF_ERROR(error_);
  // A key "_X" is a note of the program that wrote the file, unless a family reads X.
  const auto is_mark = [&](std::string_view key) {
    return key.starts_with('_') && source_.known != nullptr && !source_.known(key.substr(1));
  };
  const std::string path = source_.object.empty() ? "" : source_.object + ".";
  std::vector<UnknownKeys> unknown = {{"", Json::object()}, {path, Json::object()}};
  for (const auto& [key, value] : source_.beside.items()) {
    ASSIGN_OR_RETURN(const bool harmless, is_harmless(key, value));
    if (!harmless && !is_mark(key)) unknown[0].keys[key] = value;
  }
  for (const auto& [key, value] : json_.items()) {
    const auto matches = [&name = key](const std::string& pattern) {
      return matches_key(pattern, name);
    };
    if (names_.contains(key) || std::ranges::any_of(patterns_, matches)) continue;
    ASSIGN_OR_RETURN(const bool harmless, is_harmless(key, value));
    if (!harmless && !is_mark(key)) unknown[1].keys[key] = value;
  }
  return refuse_unknown(unknown);
}

}  // namespace lockstep
