// SPDX-License-Identifier: Apache-2.0
// Steps as Chrome's trace event JSON, which Perfetto (ui.perfetto.dev) opens: one process for the
// coordinator and one per rank; everything that took time is a complete event ("ph": "X").
#pragma once

#include <cstddef>
#include <string>

#include "coordinator/http/exchange.h"
#include "coordinator/trace/trace_recorder.h"

namespace lockstep {

// The JSON is written while it is sent, one rank of one step at a time.
//
// Ranks' clocks differ from the coordinator's. A rank reports the duration of its step. The step is
// placed in the middle of the time from its sending to the last rank's answer, as if both ways took
// equally long. Operators are placed relative to the step's begin, by the rank's own clock.
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
  int64_t base_ns_ = 0;  // Times are relative to this.
  size_t step_ = 0;      // The index of the step that is written.
  size_t part_ = 0;      // The next part of it: 0 is the coordinator, then the ranks.
  bool begun_ = false;
  std::string out_;
};

}  // namespace lockstep
