// SPDX-License-Identifier: Apache-2.0
// The choices that a graph is compiled by.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/numbers/dtype.h"
#include "proto/program.pb.h"
#include "sharding/worker_facts.h"

namespace lockstep {

enum class Strategy { kGather, kReduce };
const char* strategy_name(Strategy strategy);  // "gather", "reduce"

struct CompileOptions {
  // By rank. Speeds, relative to each other and rounded to eighths, decide how much each one gets.
  std::vector<WorkerFacts> workers = std::vector<WorkerFacts>(1);
  Strategy strategy = Strategy::kGather;
  program::Limits limits;
  // The type that a linear's, the embedding's or the head's weight is kept in and computed with;
  // norms and biases are float32. Called with the checkpoint's name of the (first) piece.
  std::function<DType(const std::string& source, program::Role role)> weight_dtype;
  DType kv_dtype = DType::kF32;
  // Called with a stage's name ("model", a pass, "program") and its text, of rank `trace_rank`.
  std::function<void(const std::string& stage, const std::string& text)> trace;
  int trace_rank = 0;
};

}  // namespace lockstep
