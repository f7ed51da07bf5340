// SPDX-License-Identifier: Apache-2.0
// A Jinja template: parsed once, rendered with variables. It gives what Python's Jinja gives in the
// reference's sandbox (trim_blocks, lstrip_blocks, loop controls, no changes of values), reaches
// nothing outside, and is bounded in everything: a template is a stranger's program.
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

// Whether a string, found under this key of the JSON (empty in a list), counts as the request's.
using IsFromRequest = bool (*)(std::string_view key, std::string_view text);

struct Variable {
  std::string name;
  const OrderedJson* value;
  IsFromRequest is_from_request;
};

// Immutable once parsed: any thread may render it.
class Template {
 public:
  // "line 3: what" is the form of all errors, here and in render.
  static absl::StatusOr<Template> parse(std::string_view source, const Limits& limits = {});

  // Whether it looks at a variable of this name anywhere.
  bool reads(std::string_view name) const;

  // The text that it prints, with the ranges that came from the request. `now` is the local time
  // that strftime_now shows. kInvalidArgument for the template's errors, raise_exception among
  // them; kResourceExhausted where it asks for too much.
  absl::StatusOr<MarkedText> render(const std::vector<Variable>& variables,
                                    const std::tm& now) const;

 private:
  std::shared_ptr<const Syntax> syntax_;
  Limits limits_;
};

}  // namespace lockstep::jinja
