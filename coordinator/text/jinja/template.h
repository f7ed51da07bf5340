// SPDX-License-Identifier: Apache-2.0
// A Jinja template: parsed once, rendered with variables. It gives the same text as Python's Jinja
// in the sandbox of transformers (trim_blocks, lstrip_blocks, loop controls, immutable values). It
// cannot access anything outside, and all its costs are limited: a template is an untrusted
// program.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "coordinator/text/jinja/strings/budget.h"
#include "coordinator/text/marked_text.h"

namespace lockstep::jinja {

struct Syntax;

// Whether a string of a variable's JSON counts as the request's. `key`: the string's key in its
// object; empty for an item of a list.
using IsFromRequest = bool (*)(std::string_view key, std::string_view text);

struct Variable {
  std::string name;
  const OrderedJson* value;
  IsFromRequest is_from_request;
};

// Immutable after parsing: any thread may render it.
class Template {
 public:
  // "line 3: what" is the form of all errors, here and in render().
  static absl::StatusOr<Template> parse(std::string_view source, const Limits& limits = {});

  // Whether any expression reads a variable of this name.
  bool reads(std::string_view name) const;

  // The printed text, with the ranges that came from the request. `now` is the local time for
  // strftime_now. kInvalidArgument for the template's errors, including raise_exception;
  // kResourceExhausted if it exceeds a limit.
  absl::StatusOr<MarkedText> render(const std::vector<Variable>& variables,
                                    const std::tm& now) const;

 private:
  std::shared_ptr<const Syntax> syntax_;
  Limits limits_;
};

}  // namespace lockstep::jinja
