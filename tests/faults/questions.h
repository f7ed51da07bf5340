// SPDX-License-Identifier: Apache-2.0
// The clients' questions, and how answers are compared: by tokens and by the bits of their
// log-probabilities, which no fault may change.
#pragma once

#include <grpcpp/grpcpp.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/generate.grpc.pb.h"
#include "tests/faults/checkpoints.h"

namespace lockstep::faults {

using Stub = v1::Generation::Stub;

// A token and its log-probability.
struct Bits {
  int32_t token = 0;
  uint32_t logprob = 0;
  bool operator==(const Bits&) const = default;
};

struct Choice {
  std::vector<Bits> bits;
  std::string text;
  bool operator==(const Choice&) const = default;
};
using Choices = std::map<int32_t, Choice>;  // By the choice's index.

struct Answer {
  grpc::Status status;
  Choices choices;                     // All that arrived.
  std::chrono::milliseconds pause{0};  // The longest time before or between messages.
};

// `patience` is the call's deadline: a call that hangs ends with DEADLINE_EXCEEDED.
Answer ask(Stub& stub, const v1::GenerateRequest& request, std::chrono::seconds patience);

struct Question {
  v1::GenerateRequest request;
  // The right answers, by the checkpoint's variant: those of a server without faults.
  std::array<Choices, kVariants> answers;

  // The variant with this answer, or -1.
  int variant_of(const Choices& choices) const;
  // Whether these choices are the beginning of a right answer.
  bool begins_an_answer(const Choices& choices) const;
};

// Short and long questions, greedy and drawn, with several choices, stop strings, penalties; the
// first is short.
std::vector<Question> make_questions();

// True if the server reports that it loaded another checkpoint meanwhile.
bool was_rewritten(const grpc::Status& status);

}  // namespace lockstep::faults
