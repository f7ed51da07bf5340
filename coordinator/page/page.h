// SPDX-License-Identifier: Apache-2.0
// The files of the page at /, embedded in the program: the page needs neither a network nor a
// folder.
#pragma once

#include <span>
#include <string_view>

namespace lockstep {

struct PageFile {
  std::string_view path;  // "/page.css"
  std::string_view content_type;
  std::string_view bytes;
};

std::span<const PageFile> page_files();

}  // namespace lockstep
