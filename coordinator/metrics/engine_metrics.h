// SPDX-License-Identifier: Apache-2.0
// An engine's metrics in Prometheus' text format, with the names and meanings that vLLM's
// dashboards and endpoint pickers expect (docs/metrics.md lists them).
#pragma once

#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/engine/engine_observer.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/streams/resumable_index.h"

namespace lockstep {

// A rank's time, over all steps.
struct RankTimes {
  int64_t compute_ns = 0;
  int64_t wait_ns = 0;  // For peers.
  int64_t transfer_ns = 0;
};

// Counts from outside the engine.
struct ServerCounts {
  int64_t unknown_fields = 0;     // Ignored or refused, of all requests.
  int64_t log_lines_dropped = 0;  // Because the log is read too slowly.
  int64_t too_long_waits = 0;     // Requests refused because they would wait too long.
  ResumableCounts resumable;      // Resumable streams.
};

// An engine observer; any thread may read it.
class EngineMetrics final : public EngineObserver {
 public:
  // Names begin with `prefix` and a colon.
  EngineMetrics(std::string prefix, const std::string& model_name);

  void on_submitted(const Stream* stream, const EngineRequest& request,
                    int64_t submitted_ns) override;
  void on_set_aside(const Stream* stream) override;
  void on_started(const Stream* stream, int64_t now_ns) override;
  void on_event(const Stream* stream, const StreamEvent& event, int64_t now_ns) override;
  void on_closed(const Stream* stream, const absl::Status& status, int64_t now_ns) override;
  void on_step(const StepReport& report) override;
  void on_part(EnginePart part, int64_t begin_ns, int64_t end_ns) override;

  // All metrics, with the engine's current state. Any thread.
  std::string text(const EngineStats& stats, const ServerCounts& counts = {}) const;
  // The state for the page, as JSON: the group and its ranks, pages, queue, times, and the workers
  // among `workers` that have no rank. Times are totals in nanoseconds. Any thread.
  std::string state_json(const EngineStats& stats,
                         const std::vector<WorkerState>& workers = {}) const;

 private:
  struct ChoiceTimes {
    int64_t first_token_ns = 0;
    int64_t last_token_ns = 0;
  };
  // For a request that has not ended.
  struct RequestTimes {
    int64_t submitted_ns = 0;
    int64_t started_ns = 0;  // 0: not yet.
    int64_t prompt_tokens = 0;
    int64_t choices = 0;
    std::map<int32_t, ChoiceTimes> begun;  // The choices that had a token.
  };

  using Families = std::vector<prometheus::MetricFamily>;
  // Adds a choice that ended to the histograms and counts.
  void observe_end(const RequestTimes& times, const StreamEvent& event, int64_t now_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void set_aside(const Stream* stream, bool aside) ABSL_LOCKS_EXCLUDED(mutex_);

  void add_state(const EngineStats& stats, Families* families) const ABSL_LOCKS_EXCLUDED(mutex_);
  void add_waiting(const EngineStats& stats, Families* families) const ABSL_LOCKS_EXCLUDED(mutex_);
  void add_cache(const EngineStats& stats, Families* families) const;
  void add_totals(const EngineStats& stats, Families* families) const;
  void add_refused(const QueueLoad& refused, int64_t too_long_waits, Families* families) const;
  void add_resumable(const ResumableCounts& resumable, Families* families) const;
  void add_times(const EngineStats& stats, Families* families) const ABSL_LOCKS_EXCLUDED(mutex_);
  void add_histograms(Families* families) const;

  prometheus::MetricFamily family(const char* name, const char* help,
                                  prometheus::MetricType type) const;
  prometheus::ClientMetric metric(std::vector<prometheus::ClientMetric::Label> labels = {}) const;
  void add_gauge(const char* name, const char* help, double value, Families* families) const;
  void add_counter(const char* name, const char* help, double value, Families* families) const;
  void add_histogram(const char* name, const char* help, const prometheus::Histogram& histogram,
                     Families* families) const;

  const std::string prefix_;
  const std::string model_name_;

  // Used only by the engine's thread.
  std::unordered_map<const Stream*, RequestTimes> requests_;
  int64_t streamed_tokens_ = 0;  // Tokens in this step's events so far.

  // Each histogram has its own lock.
  prometheus::Histogram first_token_s_;
  prometheus::Histogram between_tokens_s_;
  prometheus::Histogram request_s_;
  prometheus::Histogram queue_s_;
  prometheus::Histogram prefill_s_;
  prometheus::Histogram decode_s_;
  prometheus::Histogram inference_s_;
  prometheus::Histogram choices_;
  prometheus::Histogram max_tokens_;
  prometheus::Histogram prompt_tokens_;
  prometheus::Histogram generation_tokens_;
  prometheus::Histogram step_tokens_;
  prometheus::Histogram preemptions_;

  mutable Mutex mutex_;
  std::map<std::string, int64_t> ended_ ABSL_GUARDED_BY(mutex_);  // Choices, by reason.
  std::vector<RankTimes> ranks_ ABSL_GUARDED_BY(mutex_);
  int64_t prompt_tokens_total_ ABSL_GUARDED_BY(mutex_) = 0;
  // Requests that wait for a larger group, with the number of their choices.
  std::unordered_map<const Stream*, int64_t> aside_ ABSL_GUARDED_BY(mutex_);
  int64_t step_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // Time of steps with rows, to their last answer.
};

}  // namespace lockstep
