// SPDX-License-Identifier: Apache-2.0
// Python's two ways to format: "%s" % value, and "{}".format(value).
#pragma once

#include "coordinator/text/jinja/builtin.h"

namespace lockstep::jinja {

Result percent_format(Runtime& runtime, const Text& format, const Value& values);
Result brace_format(Runtime& runtime, const Text& format, const Arguments& arguments);

}  // namespace lockstep::jinja
