// SPDX-License-Identifier: Apache-2.0
// The elements of a graph.
#pragma once

#include <string>
#include <vector>

#include "base/numbers/dtype.h"
#include "models/graph/axis.h"
#include "operators/schema/schema.h"
#include "proto/program.pb.h"

namespace lockstep {

// A handle to a value of one graph.
struct Value {
  int id = -1;
};

struct ValueInfo {
  std::string name = {};
  DType dtype = DType::kF32;
  int rows = kTokenRows;  // Index into Graph::row_domains.
  AxisSize axis = {};     // Its columns.
  int node = -1;          // The node that produces it.
};

struct Node {
  Op op = Op::kNone;
  std::vector<int> inputs = {};      // Values, in the kernel's order.
  std::vector<int> parameters = {};  // In the kernel's order, after the values.
  std::vector<int> outputs = {};     // Values.
  program::Attributes attributes = {};
};

// Each token's experts, ascending: their ids and weights.
struct Routes {
  Value ids;
  Value weights;
};

// The term that a recurrence adds to its state besides k * v^T: b * (a^T S).
struct LowRank {
  Value a;
  Value b;
};

}  // namespace lockstep
