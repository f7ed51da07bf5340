// SPDX-License-Identifier: Apache-2.0
// Errors of commands that answer line by line: a bad line affects only its own answer.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace lockstep {

// The lines of one input that got an error instead of an answer.
class BadLines {
 public:
  // `input`: "requests.jsonl", "standard input".
  explicit BadLines(std::string input) : input_(std::move(input)) {}

  // Prints {"error": "requests.jsonl line 3: ..."}.
  void print(int number, const absl::Status& status);
  // OK if no line got an error; else the number of errors and the first error, with its code.
  absl::Status status() const;

 private:
  const std::string input_;
  int count_ = 0;
  absl::Status first_;
};

}  // namespace lockstep
