// SPDX-License-Identifier: Apache-2.0
#include "tools/inspect/program_page.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "tools/inspect/page_files.h"

namespace lockstep {
namespace {

// A source for a Content-Security-Policy: 'sha256-...', in base64.
std::string source_hash(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::array<unsigned char, 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1> base64 = {};
  EVP_EncodeBlock(base64.data(), digest.data(), SHA256_DIGEST_LENGTH);
  return fmt::format("'sha256-{}'", reinterpret_cast<const char*>(base64.data()));
}

}  // namespace

std::string program_page(const InspectedProgram& inspected) {
  const std::string policy = fmt::format(
      "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; "
      "form-action 'none'",
      source_hash(kPageFiles.script), source_hash(kPageFiles.style));
  const std::string program = program_json(inspected);
  const std::pair<std::string_view, std::string_view> parts[] = {{"{{policy}}", policy},
                                                                 {"{{style}}", kPageFiles.style},
                                                                 {"{{program}}", program},
                                                                 {"{{script}}", kPageFiles.script}};
  std::string page;
  std::string_view rest = kPageFiles.html;
  for (const auto& [mark, text] : parts) {
    const size_t at = rest.find(mark);
    LOCKSTEP_CHECK(at != std::string_view::npos);
    page.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + mark.size());
  }
  return page.append(rest);
}

}  // namespace lockstep
