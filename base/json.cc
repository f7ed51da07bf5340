// SPDX-License-Identifier: Apache-2.0
// nlohmann's SAX parser (iterative, no exceptions) feeds a builder that stops at the first limit.
#include "base/json.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "base/text_map.h"

namespace lockstep {
namespace {

// The index of each key.
using Seen = TextMap<std::string, size_t>;

// Walks the text and records how far the parser has come, which SAX events do not report.
class Cursor {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Adds a member and returns it. If the key exists: returns that member if `replace`, else null.
// `seen` is for ordered objects, whose members are a list: it maps each key to its index.
Json* add_member(Json& object, const std::string& key, bool replace, Seen&) {
  auto [member, fresh] = object.get_ref<Json::object_t&>().try_emplace(key);
  return fresh || replace ? &member->second : nullptr;
}

OrderedJson* add_member(OrderedJson& object, const std::string& key, bool replace, Seen& seen) {
  auto& members = object.get_ref<OrderedJson::object_t&>();
  const auto [place, fresh] = seen.try_emplace(key, members.size());
  // Calls the base class: OrderedJson's own emplace compares with all keys.
  using List = OrderedJson::object_t::Container;
  if (fresh) static_cast<List&>(members).emplace_back(key, nullptr);
  return fresh || replace ? &members.begin()[static_cast<ptrdiff_t>(place->second)].second
                          : nullptr;
}

// Builds JSON values of either kind from SAX events.
template <typename Tree>
class Builder {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return add(nullptr) != nullptr; }
  bool boolean(bool value) { return add(value) != nullptr; }
  bool number_integer(int64_t value) { return add(value) != nullptr; }
  bool number_unsigned(uint64_t value) { return add(value) != nullptr; }
  bool number_float(double value, const std::string&) { return add(value) != nullptr; }
  bool string(std::string& value) { return add(std::move(value)) != nullptr; }
  bool binary(typename Tree::binary_t&) { return fail("binary data"); }
  bool start_object(size_t) { return open(Tree::object()); }
  bool start_array(size_t) { return open(Tree::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (!count()) return false;
    member_ = add_member(*open_.back(), name, !limits_.reject_duplicate_keys, keys_.back());
    return member_ != nullptr ||
           fail(fmt::format("the key \"{}\" appears twice in one object", printable(name)));
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
    // "[json.exception...] parse error at ...: why", or "[json.exception...] why".
    std::string_view text = error.what();
    if (const size_t name = text.find("] "); name != text.npos) text.remove_prefix(name + 2);
    if (const size_t why = text.find(": "); why != text.npos) text.remove_prefix(why + 2);
    return fail("not valid JSON: " + printable(text));
  }

  const std::string& problem() const { return problem_; }
  Tree take() { return std::move(root_); }

 private:
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  bool count() {
    constexpr int64_t kValuesPerSign = 4096;
    if (++values_ % kValuesPerSign == 0 && limits_.alive) limits_.alive();
    return values_ <= limits_.values ||
           fail(fmt::format("more than {} values and keys", limits_.values));
  }

  // Puts a value at the parser's position; null if a limit is exceeded. The pointer is valid until
  // the value is closed, because its parent gets no other member until then.
  Tree* add(Tree value) {
    if (!count()) return nullptr;
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& items = open_.back()->template get_ref<typename Tree::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool open(Tree container) {
    if (static_cast<int>(open_.size()) == limits_.depth) {
      return fail(fmt::format("more than {} nested objects and arrays", limits_.depth));
    }
    Tree* added = add(std::move(container));
    if (added == nullptr) return false;
    open_.push_back(added);
    keys_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  int64_t values_ = 0;
  Tree root_;
  std::vector<Tree*> open_;
  std::vector<Seen> keys_;  // One per open container.
  Tree* member_ = nullptr;  // The value of the key just read.
  std::string problem_;
};

template <typename Tree>
absl::StatusOr<Tree> parse_tree(std::string_view text, std::string_view what,
                                const JsonLimits& limits) {
  Builder<Tree> builder(limits);
  const char* reached = text.data();
  const bool parsed = Tree::sax_parse(Cursor(text.data(), &reached),
                                      Cursor(text.data() + text.size(), &reached), &builder);
  if (!parsed && text.starts_with("version https://git-lfs")) {
    return invalid_argument(
        "{}: it is a Git LFS pointer, not the file: run `git lfs pull` to fetch it", what);
  }
  if (!parsed) {
    return invalid_argument("{}: {} (at byte {})", what, builder.problem(), reached - text.data());
  }
  return builder.take();
}

absl::Status wrong_type(std::string_view key, std::string_view wanted, const Json* found) {
  return invalid_argument("{}: must be {}, found {}", printable(key), wanted,
                          found == nullptr ? "nothing" : describe(*found));
}

// The member; null if it is missing or null.
absl::StatusOr<const Json*> find(const Json& object, std::string_view key) {
  if (!object.is_object()) {
    return invalid_argument("{}: must be a member of an object, found {} instead of the object",
                            printable(key), describe(object));
  }
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<Json> parse_json(std::string_view text, std::string_view what,
                                const JsonLimits& limits) {
  return parse_tree<Json>(text, what, limits);
}

absl::StatusOr<OrderedJson> parse_ordered_json(std::string_view text, std::string_view what,
                                               const JsonLimits& limits) {
  return parse_tree<OrderedJson>(text, what, limits);
}

absl::StatusOr<int64_t> get_int(const Json& object, std::string_view key,
                                std::optional<int64_t> fallback) {
  constexpr std::string_view kWanted = "an integer";
  ASSIGN_OR_RETURN(const Json* found, find(object, key));
  if (found == nullptr && fallback.has_value()) return *fallback;
  if (found == nullptr || !found->is_number_integer()) return wrong_type(key, kWanted, found);
  if (found->is_number_unsigned() && found->get<uint64_t>() > uint64_t{INT64_MAX}) {
    return wrong_type(key, "an integer below 2^63", found);
  }
  return found->get<int64_t>();
}

absl::StatusOr<bool> get_bool(const Json& object, std::string_view key,
                              std::optional<bool> fallback) {
  ASSIGN_OR_RETURN(const Json* found, find(object, key));
  if (found == nullptr && fallback.has_value()) return *fallback;
  if (found == nullptr || !found->is_boolean()) return wrong_type(key, "true or false", found);
  return found->get<bool>();
}

absl::StatusOr<double> get_double(const Json& object, std::string_view key,
                                  std::optional<double> fallback) {
  ASSIGN_OR_RETURN(const Json* found, find(object, key));
  if (found == nullptr && fallback.has_value()) return *fallback;
  if (found == nullptr || !found->is_number()) return wrong_type(key, "a number", found);
  const double value = found->get<double>();
  if (!std::isfinite(value)) return wrong_type(key, "a finite number", found);
  return value;
}

absl::StatusOr<std::string> get_string(const Json& object, std::string_view key,
                                       std::optional<std::string> fallback) {
  ASSIGN_OR_RETURN(const Json* found, find(object, key));
  if (found == nullptr && fallback.has_value()) return *std::move(fallback);
  if (found == nullptr || !found->is_string()) return wrong_type(key, "a string", found);
  return found->get<std::string>();
}

std::string write_json(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return fmt::format("a string (\"{}\")", printable(value.get_ref<const std::string&>()));
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::number_integer:
      return fmt::format("an integer ({})", value.get<int64_t>());
    case Json::value_t::number_unsigned:
      return fmt::format("an integer ({})", value.get<uint64_t>());
    case Json::value_t::number_float:
      return fmt::format("a number that is not an integer ({})", value.get<double>());
    default:
      return "a value that is not JSON";
  }
}

}  // namespace lockstep
