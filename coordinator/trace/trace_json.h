// SPDX-License-Identifier: Apache-2.0
// Steps as Chrome's trace event JSON, which Perfetto (ui.perfetto.dev) opens: a process for the
// coordinator and one per rank, and everything that took time as a complete event ("ph": "X").
#pragma once

#include <cstddef>
#include <string>

#include "coordinator/http/exchange.h"
#include "coordinator/trace/trace_recorder.h"

namespace lockstep {

// Written while it is sent, one rank of one step at a time.
//
// Ranks' clocks are not the coordinator's. A rank says how long its step took; that much time is
// placed in the middle between the sending of the step and its last answer, as if both ways took
// equally long. Operators are placed by the rank's own clock from there on.
class TraceJson final : public http::BodySource {
 public:
  explicit TraceJson(RecordedSteps steps);
  State read(std::string* bytes) override;

 private:
  void write_names();
  void write_coordinator(const RecordedStep& step);
  void write_rank(const RecordedStep& step, size_t rank);
  void write_operators(const RecordedStep& step, size_t rank, int64_t begin_ns);
  void write_name(const char* kind, size_t pid, int tid, const std::string& name);
  // `args` are the members of a JSON object.
  void write_event(const std::string& name, size_t pid, int tid, int64_t begin_ns,
                   int64_t duration_ns, const std::string& args);

  const RecordedSteps steps_;
  int64_t base_ns_ = 0;  // Times are written from here on.
  size_t step_ = 0;      // Next is this part of this step: 0 the coordinator, then the ranks.
  size_t part_ = 0;
  bool begun_ = false;
  std::string out_;
};

}  // namespace lockstep
