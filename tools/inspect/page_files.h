// SPDX-License-Identifier: Apache-2.0
// The embedded files of the page that `lockstep inspect --html` writes.
#pragma once

#include <string_view>

namespace lockstep {

struct PageFiles {
  std::string_view html;  // With {{policy}}, {{style}}, {{program}} and {{script}}, in this order.
  std::string_view style;
  std::string_view script;
};
extern const PageFiles kPageFiles;

}  // namespace lockstep
