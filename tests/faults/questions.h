// SPDX-License-Identifier: Apache-2.0
// What clients ask, and how an answer is compared: by tokens and by the bits of their
// log-probabilities, which no fault may change.
#pragma once

#include <grpcpp/grpcpp.h>

#include <array>
#include <chrono>
#include <cstdint>
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

struct Answer {
  grpc::Status status;
  std::vector<Bits> bits;  // As many as came.
};

// `patience` is the call's deadline: one that hangs ends with DEADLINE_EXCEEDED.
Answer ask(Stub& stub, const v1::GenerateRequest& request, std::chrono::seconds patience);

struct Question {
  v1::GenerateRequest request;
  // By variant of the checkpoint; learnt from a server that nothing happens to.
  std::array<std::vector<Bits>, kVariants> answers;

  // -1: neither variant's.
  int variant_of(const std::vector<Bits>& bits) const;
  bool begins_an_answer(const std::vector<Bits>& bits) const;
};

// Short and long ones; the first is short.
std::vector<Question> make_questions();

// True: the server did not take the request, since it has no group.
bool was_refused(const grpc::Status& status);
// True: the server took it and lost a rank, which it names.
bool names_a_rank(const grpc::Status& status);

}  // namespace lockstep::faults
