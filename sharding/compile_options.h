// SPDX-License-Identifier: Apache-2.0
// The options of compile().
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
  // By rank. A rank's speed, in eighths of the fastest one, decides the size of its part.
  std::vector<WorkerFacts> workers = std::vector<WorkerFacts>(1);
  Strategy strategy = Strategy::kGather;
  program::Limits limits;
  // Returns the type in which the weight of a linear, the embedding or the head is stored and
  // computed; norms and biases are float32. `source` names the checkpoint's tensor (the first of
  // several).
  std::function<DType(const std::string& source, program::Role role)> weight_dtype;
  DType kv_dtype = DType::kF32;
  // Called with each stage's name ("model", a pass, "program") and its text, for rank `trace_rank`.
  std::function<void(const std::string& stage, const std::string& text)> trace;
  int trace_rank = 0;
};

}  // namespace lockstep
