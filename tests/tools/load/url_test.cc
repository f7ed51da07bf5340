// SPDX-License-Identifier: Apache-2.0
#include "tools/load/url.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(UrlTest, PortAndPathHaveDefaults) {
  const std::pair<const char*, const char*> cases[] = {
      {"http://host", "http://host:80/v1"},
      {"http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1"},
      {"http://host:1/openai/v1//", "http://host:1/openai/v1"},
      {"http://[::1]:8000", "http://[::1]:8000/v1"},
      {"https://host/v1", "https://host:443/v1"},
      {"https://127.0.0.1:8001", "https://127.0.0.1:8001/v1"},
      {"http://[::1]/v1", "http://[::1]:80/v1"}};
  for (const auto& [text, wanted] : cases) {
    const absl::StatusOr<Url> url = parse_url("--url", text);
    ASSERT_TRUE(url.ok()) << url.status();
    EXPECT_EQ(url->text(), wanted);
  }
  EXPECT_EQ(parse_url("--url", "http://[::1]:8000")->host, "::1");
}

TEST(UrlTest, AnythingElseIsRefused) {
  for (const char* text :
       {"", "host:8000", "ftp://host", "http://", "https://", "http://:80",
        "http://host:", "http://host:0", "http://host:65536", "http://host:8x", "http://user@host",
        "http://host/a?b", "http://ho st", "http://host\r\nX: y", "http://[::1", "http://::1]:80",
        "http://::1", "http://host/#a", "http://[::1]x:80"}) {
    EXPECT_FALSE(parse_url("--url", text).ok()) << text;
  }
}

}  // namespace
}  // namespace lockstep
