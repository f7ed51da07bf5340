// SPDX-License-Identifier: Apache-2.0
#include "coordinator/trace/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/json.h"

namespace lockstep {
namespace {

constexpr size_t kCoordinator = 0;  // The process id in the trace; a rank has its number plus one.
constexpr int kEngine = 1;          // Threads of the coordinator.
constexpr int kSteps = 2;
constexpr int kRankSteps = 1;  // Threads of a rank.
constexpr int kOperators = 2;

std::string json_string(const std::string& text) { return write_json(OrderedJson(text)); }

std::string microseconds(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

bool is_traced(const RecordedStep& step, size_t rank) {
  return rank < step.report.traces.size() && step.report.traces[rank].total_ns() > 0;
}

// The duration of a step on a rank, in ns. Without a trace it is the sum of the worker's times. A
// worker may send any times, so they are limited.
int64_t duration_of(const RecordedStep& step, size_t rank) {
  if (is_traced(step, rank)) return step.report.traces[rank].total_ns();
  const int64_t max = step.report.answered_ns - step.report.sent_ns;
  const cluster::StepTimes& times = step.report.ranks[rank];
  int64_t sum = 0;
  for (const int64_t ns : {times.compute_ns(), times.wait_ns(), times.transfer_ns()}) {
    sum += std::min(ns, max);
  }
  return std::min(sum, max);
}

}  // namespace

TraceJson::TraceJson(RecordedSteps steps) : steps_(std::move(steps)) {
  if (steps_.empty()) return;
  const RecordedStep& first = *steps_.front();
  base_ns_ = first.report.sent_ns;
  if (!first.engine.empty()) base_ns_ = std::min(base_ns_, first.engine.front().begin_ns);
}

http::BodySource::State TraceJson::read(std::string* bytes) {
  if (!std::exchange(begun_, true)) write_names();
  while (out_.size() < http::kPieceBytes && step_ < steps_.size()) {
    const RecordedStep& step = *steps_[step_];
    if (part_ == 0) {
      write_coordinator(step);
    } else {
      write_rank(step, part_ - 1);
    }
    if (++part_ > step.report.ranks.size()) {
      ++step_;
      part_ = 0;
    }
  }
  const bool ends = step_ == steps_.size();
  if (ends) out_ += "\n]}\n";
  *bytes += std::exchange(out_, {});
  return ends ? State::kEnd : State::kMore;
}

void TraceJson::write_names() {
  out_ = R"({"displayTimeUnit":"ns","traceEvents":[)"
         R"({"ph":"M","pid":0,"tid":0,"name":"process_name","args":{"name":"coordinator"}})";
  write_name("thread_name", kCoordinator, kEngine, "engine");
  write_name("thread_name", kCoordinator, kSteps, "steps, from sending to the last answer");
  const RecordedStep none;
  const RecordedStep& last = steps_.empty() ? none : *steps_.back();
  for (size_t rank = 0; rank < last.report.ranks.size(); ++rank) {
    std::string name = fmt::format("rank {}", rank);
    if (last.ranks != nullptr && rank < last.ranks->size()) {
      const RankInfo& info = (*last.ranks)[rank];
      name += fmt::format(" ({} {}, pid {})", info.device, info.isa, info.pid);
    }
    const bool queued = is_traced(last, rank) && last.report.traces[rank].queued();
    write_name("process_name", rank + 1, 0, name);
    write_name("thread_name", rank + 1, kRankSteps, "steps");
    write_name("thread_name", rank + 1, kOperators,
               queued ? "operators, handing to the device" : "operators");
  }
}

void TraceJson::write_coordinator(const RecordedStep& step) {
  for (const EngineSpan& span : step.engine) {
    write_event(engine_part_name(span.part), kCoordinator, kEngine, span.begin_ns,
                span.end_ns - span.begin_ns, "");
  }
  const StepReport& report = step.report;
  write_event("step", kCoordinator, kSteps, report.sent_ns, report.answered_ns - report.sent_ns,
              fmt::format(R"("step":{},"rows":{},"sequences":{})", report.step, report.rows,
                          report.sequences));
}

void TraceJson::write_rank(const RecordedStep& step, size_t rank) {
  const StepReport& report = step.report;
  const int64_t duration_ns = duration_of(step, rank);
  const int64_t around_ns = report.answered_ns - report.sent_ns - duration_ns;
  const int64_t begin_ns = report.sent_ns + std::max<int64_t>(around_ns, 0) / 2;
  const cluster::StepTimes& times = report.ranks[rank];
  write_event(
      "step", rank + 1, kRankSteps, begin_ns, duration_ns,
      fmt::format(
          R"("step":{},"rows":{},"sequences":{},"compute_ns":{},"wait_ns":{},"transfer_ns":{})",
          report.step, report.rows, report.sequences, times.compute_ns(), times.wait_ns(),
          times.transfer_ns()));
  if (is_traced(step, rank)) write_operators(step, rank, begin_ns);
}

void TraceJson::write_operators(const RecordedStep& step, size_t rank, int64_t begin_ns) {
  const cluster::StepTrace& trace = step.report.traces[rank];
  const std::vector<OperatorName> none;
  const bool known = step.ranks != nullptr && rank < step.ranks->size();
  const std::vector<OperatorName>& names = known ? (*step.ranks)[rank].operators : none;
  for (int i = 0; i < trace.instructions_size(); ++i) {
    const auto instruction = static_cast<size_t>(trace.instructions(i));
    OperatorName name = {.op = "operator"};
    if (instruction < names.size()) name = names[instruction];
    write_event(
        name.op, rank + 1, kOperators, begin_ns + trace.begin_ns(i), trace.duration_ns(i),
        fmt::format(R"("step":{},"instruction":{},"value":{},"wait_ns":{})", step.report.step,
                    instruction, json_string(name.value), trace.wait_ns(i)));
  }
}

void TraceJson::write_name(const char* kind, size_t pid, int tid, const std::string& name) {
  fmt::format_to(std::back_inserter(out_),
                 ",\n"
                 R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})",
                 pid, tid, kind, json_string(name));
}

void TraceJson::write_event(const std::string& name, size_t pid, int tid, int64_t begin_ns,
                            int64_t duration_ns, const std::string& args) {
  fmt::format_to(std::back_inserter(out_),
                 ",\n"
                 R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"args":{{{}}}}})",
                 pid, tid, microseconds(begin_ns - base_ns_), microseconds(duration_ns),
                 json_string(name), args);
}

}  // namespace lockstep
