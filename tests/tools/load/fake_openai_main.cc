// SPDX-License-Identifier: Apache-2.0
// FakeOpenAi as a program, to try `lockstep bench serve` without a model.
#include <CLI/CLI.hpp>
#include <iostream>

#include "tests/tools/load/fake_openai.h"

int main(int argc, char** argv) {
  using lockstep::testing::FakeAnswer;
  uint16_t port = 0;
  int first_ms = 0, between_ms = 0;
  CLI::App app("Answers OpenAI's requests with words, until standard input ends.", "fake_openai");
  app.add_option("--port", port, "Port of 127.0.0.1 (default: a free one)");
  app.add_option("--first-ms", first_ms, "Milliseconds before an answer's first token");
  app.add_option("--between-ms", between_ms, "Milliseconds before each later token");
  CLI11_PARSE(app, argc, argv);
  const lockstep::testing::FakeOpenAi server(
      [&](const lockstep::testing::FakeRequest&) {
        return FakeAnswer{.first = std::chrono::milliseconds(first_ms),
                          .between = std::chrono::milliseconds(between_ms)};
      },
      port);
  std::cerr << "fake_openai: " << server.url() << "\n";
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
}
