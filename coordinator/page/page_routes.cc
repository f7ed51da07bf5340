// SPDX-License-Identifier: Apache-2.0
#include "coordinator/page/page_routes.h"

#include "coordinator/page/page.h"

namespace lockstep {
namespace {

constexpr const char* kSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

http::Response response_of(const PageFile& file) {
  return {.headers = {{"Content-Type", std::string(file.content_type)},
                      {"Content-Security-Policy", kSecurityPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}},
          .body = std::string(file.bytes)};
}

}  // namespace

std::vector<http::Route> page_routes() {
  std::vector<http::Route> routes;
  for (const PageFile& file : page_files()) {
    routes.emplace_back("GET", std::string(file.path),
                        [file](const std::shared_ptr<http::Exchange>& exchange) {
                          exchange->respond(response_of(file));
                        });
  }
  return routes;
}

}  // namespace lockstep
