// SPDX-License-Identifier: Apache-2.0
// Histograms are updated by events; everything else is read from the engine's statistics when
// metrics are requested.
#include "coordinator/metrics/engine_metrics.h"

#include <fmt/format.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/version.h"

namespace lockstep {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

// The bounds of buckets: powers of ten, times 1, 2.5 (in kTokens 2) and 5.
const Histogram::BucketBoundaries kSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                              0.1,    0.25,  0.5,    1,     2.5,  5,     10,
                                              25,     50,    100,    250,   500,  1000};
const Histogram::BucketBoundaries kTokens = {1,   2,    5,    10,   20,    50,    100,   200,
                                             500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
const Histogram::BucketBoundaries kPreemptions = {0, 1, 2, 5, 10, 20};

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// The names that vLLM uses.
const char* ended_as(FinishReason reason) {
  return reason == FinishReason::kCancelled ? "abort" : finish_reason_name(reason);
}

}  // namespace

EngineMetrics::EngineMetrics(std::string prefix, const std::string& model_name)
    : prefix_(std::move(prefix)),
      model_name_(model_name),
      first_token_s_(kSeconds),
      between_tokens_s_(kSeconds),
      request_s_(kSeconds),
      queue_s_(kSeconds),
      prefill_s_(kSeconds),
      decode_s_(kSeconds),
      inference_s_(kSeconds),
      choices_(kTokens),
      max_tokens_(kTokens),
      prompt_tokens_(kTokens),
      generation_tokens_(kTokens),
      step_tokens_(kTokens),
      preemptions_(kPreemptions) {
  // Every reason is shown from the start, as 0, so that a chart can use it at once.
  for (const char* reason : {"stop", "length", "abort", "error"}) ended_[reason] = 0;
}

// ---- Events ----

void EngineMetrics::on_submitted(const Stream* stream, const EngineRequest& request,
                                 int64_t submitted_ns) {
  requests_[stream] = {.submitted_ns = submitted_ns,
                       .prompt_tokens = std::ssize(request.prompt_ids),
                       .choices = request.n};
  choices_.Observe(request.n);
  max_tokens_.Observe(request.max_tokens);
}

void EngineMetrics::on_set_aside(const Stream* stream) { set_aside(stream, true); }

void EngineMetrics::set_aside(const Stream* stream, bool aside) {
  const auto found = requests_.find(stream);
  const int64_t choices = found != requests_.end() ? found->second.choices : 0;
  MutexLock lock(&mutex_);
  if (aside) {
    aside_[stream] = choices;
  } else {
    aside_.erase(stream);
  }
}

void EngineMetrics::on_started(const Stream* stream, int64_t now_ns) {
  const auto found = requests_.find(stream);
  if (found == requests_.end() || found->second.started_ns != 0) return;
  found->second.started_ns = now_ns;
  queue_s_.Observe(seconds(now_ns - found->second.submitted_ns));
  set_aside(stream, false);
}

void EngineMetrics::on_event(const Stream* stream, const StreamEvent& event, int64_t now_ns) {
  const auto found = requests_.find(stream);
  if (found == requests_.end()) return;
  RequestTimes& times = found->second;
  if (!event.token_ids.empty()) {
    const auto [begun, first] = times.begun.try_emplace(event.index, ChoiceTimes{now_ns, now_ns});
    streamed_tokens_ += std::ssize(event.token_ids);
    if (first) streamed_tokens_ += times.prompt_tokens - event.cached_tokens;
    if (first) {
      first_token_s_.Observe(seconds(now_ns - times.submitted_ns));
      MutexLock lock(&mutex_);
      prompt_tokens_total_ += times.prompt_tokens;
    } else {
      between_tokens_s_.Observe(seconds(now_ns - begun->second.last_token_ns));
      begun->second.last_token_ns = now_ns;
    }
  }
  if (event.finish_reason != FinishReason::kNone) observe_end(times, event, now_ns);
}

void EngineMetrics::observe_end(const RequestTimes& times, const StreamEvent& event,
                                int64_t now_ns) {
  request_s_.Observe(seconds(now_ns - times.submitted_ns));
  prompt_tokens_.Observe(event.prompt_tokens);
  generation_tokens_.Observe(event.completion_tokens);
  preemptions_.Observe(event.preemptions);
  const auto begun = times.begun.find(event.index);
  if (begun != times.begun.end()) {
    const ChoiceTimes& choice = begun->second;
    prefill_s_.Observe(seconds(choice.first_token_ns - times.started_ns));
    decode_s_.Observe(seconds(choice.last_token_ns - choice.first_token_ns));
    inference_s_.Observe(seconds(choice.last_token_ns - times.started_ns));
  }
  MutexLock lock(&mutex_);
  // A choice without tokens only computed its prompt.
  const bool scored = begun == times.begun.end() && event.finish_reason != FinishReason::kCancelled;
  if (scored) prompt_tokens_total_ += times.prompt_tokens;
  ++ended_[ended_as(event.finish_reason)];
}

void EngineMetrics::on_closed(const Stream* stream, const absl::Status& status,
                              int64_t /*now_ns*/) {
  set_aside(stream, false);
  requests_.erase(stream);
  if (status.ok() || absl::IsCancelled(status)) return;  // Its choices were counted.
  MutexLock lock(&mutex_);
  ++ended_["error"];
}

// All events of a step are sent within one kEmit.
void EngineMetrics::on_part(EnginePart part, int64_t /*begin_ns*/, int64_t /*end_ns*/) {
  if (part != EnginePart::kEmit || streamed_tokens_ == 0) return;
  step_tokens_.Observe(static_cast<double>(std::exchange(streamed_tokens_, 0)));
}

void EngineMetrics::on_step(const StepReport& report) {
  if (report.sequences == 0) return;
  MutexLock lock(&mutex_);
  step_ns_ += report.answered_ns - report.sent_ns;
  ranks_.resize(std::max(ranks_.size(), report.ranks.size()));
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    ranks_[rank].compute_ns += report.ranks[rank].compute_ns();
    ranks_[rank].wait_ns += report.ranks[rank].wait_ns();
    ranks_[rank].transfer_ns += report.ranks[rank].transfer_ns();
  }
}

// ---- Output ----

std::string EngineMetrics::text(const EngineStats& stats, const ServerCounts& counts) const {
  Families families;
  add_state(stats, &families);
  add_resumable(counts.resumable, &families);
  add_totals(stats, &families);
  add_refused(stats.refused, counts.too_long_waits, &families);
  add_counter("unknown_fields_total", "Unknown fields of requests, ignored or refused.",
              static_cast<double>(counts.unknown_fields), &families);
  add_counter("log_lines_dropped_total",
              "Log lines that were dropped because the log is read too slowly.",
              static_cast<double>(counts.log_lines_dropped), &families);
  add_times(stats, &families);
  add_histograms(&families);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

void EngineMetrics::add_state(const EngineStats& stats, Families* families) const {
  MetricFamily build =
      family("build_info", "The version that runs, as a label.", MetricType::Gauge);
  build.metric.push_back(metric({{"version", kVersion}}));
  build.metric.back().gauge.value = 1;
  families->push_back(std::move(build));
  add_gauge("ready", "1 while requests are taken and every worker answers.", stats.ready ? 1 : 0,
            families);
  add_gauge("ranks", "Ranks of the last group that was formed.", stats.group.ranks, families);
  add_gauge("num_requests_running", "Choices of requests that are running.",
            static_cast<double>(stats.running), families);
  add_gauge("num_requests_waiting", "Choices of requests that wait for rows or pages.",
            static_cast<double>(stats.waiting), families);
  add_waiting(stats, families);
  add_cache(stats, families);
  const int64_t pages = stats.group.pages;
  add_gauge("kv_cache_usage_perc", "Used share of the KV pages: 1 is all of them.",
            pages > 0 ? 1 - static_cast<double>(stats.pages_free) / static_cast<double>(pages) : 0,
            families);
}

void EngineMetrics::add_waiting(const EngineStats& stats, Families* families) const {
  int64_t deferred = 0;
  {
    MutexLock lock(&mutex_);
    for (const auto& [stream, choices] : aside_) deferred += choices;
  }
  deferred = std::min(deferred, stats.waiting);
  MetricFamily waiting = family("num_requests_waiting_by_reason",
                                "Choices that wait: for rows or pages (capacity), for a larger "
                                "group (deferred).",
                                MetricType::Gauge);
  for (const auto& [reason, count] :
       {std::pair{"capacity", stats.waiting - deferred}, std::pair{"deferred", deferred}}) {
    waiting.metric.push_back(metric({{"reason", reason}}));
    waiting.metric.back().gauge.value = static_cast<double>(count);
  }
  families->push_back(std::move(waiting));
}

// Endpoint pickers read these labels.
void EngineMetrics::add_cache(const EngineStats& stats, Families* families) const {
  MetricFamily cache =
      family("cache_config_info", "The KV pages: block_size tokens each.", MetricType::Gauge);
  const GroupInfo& group = stats.group;
  const int64_t tokens = group.pages * group.page_tokens;
  const double whole_contexts =
      static_cast<double>(tokens) / static_cast<double>(std::max<int64_t>(group.max_context, 1));
  cache.metric.push_back(
      metric({{"block_size", std::to_string(group.page_tokens)},
              {"num_gpu_blocks", std::to_string(group.pages)},
              {"kv_cache_size_tokens", std::to_string(tokens)},
              {"kv_cache_max_concurrency", fmt::format("{}", whole_contexts)},
              {"enable_prefix_caching", group.shares_prefixes ? "True" : "False"}}));
  cache.metric.back().gauge.value = 1;
  families->push_back(std::move(cache));
}

void EngineMetrics::add_resumable(const ResumableCounts& resumable, Families* families) const {
  add_gauge("kept_streams", "Resumable streams that are running, or kept after their end.",
            static_cast<double>(resumable.streams), families);
  add_gauge("kept_stream_bytes", "Bytes of resumable streams, limited by --resume-bytes.",
            static_cast<double>(resumable.bytes), families);
}

void EngineMetrics::add_totals(const EngineStats& stats, Families* families) const {
  add_counter("groups_lost_total", "Groups of workers that were lost.",
              static_cast<double>(stats.groups_lost), families);
  add_counter("num_preemptions_total", "How often a choice lost its pages and was computed again.",
              static_cast<double>(stats.preemptions), families);
  add_counter("prefix_cache_queries_total", "Prompt tokens looked for in the prefix cache.",
              static_cast<double>(stats.prefix.queries), families);
  add_counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
              static_cast<double>(stats.prefix.hits), families);
  add_counter("computed_prompt_tokens_total",
              "Tokens computed by prefill: those of prompts, and all that are computed again.",
              static_cast<double>(stats.prompt_tokens), families);
  add_counter("generation_tokens_total", "Tokens generated.",
              static_cast<double>(stats.completion_tokens), families);
  add_counter("steps_total", "Steps of the group of workers.", static_cast<double>(stats.steps),
              families);
  MetricFamily ended = family("request_success_total",
                              "Choices that ended, by reason; \"error\": requests that failed.",
                              MetricType::Counter);
  MutexLock lock(&mutex_);
  add_counter("prompt_tokens_total", "Tokens of prompts that were read, cached ones included.",
              static_cast<double>(prompt_tokens_total_), families);
  for (const auto& [reason, count] : ended_) {
    ended.metric.push_back(metric({{"finished_reason", reason}}));
    ended.metric.back().counter.value = static_cast<double>(count);
  }
  families->push_back(std::move(ended));
}

void EngineMetrics::add_refused(const QueueLoad& refused, int64_t too_long_waits,
                                Families* families) const {
  MetricFamily rejections =
      family("admission_rejections_total", "Requests that a bound of the queue refused or removed.",
             MetricType::Counter);
  for (const auto& [reason, count] :
       {std::pair{"max_num_queued_reqs", refused.requests + refused.choices},
        std::pair{"max_num_queued_tokens", refused.prompt_tokens},
        std::pair{"max_num_queued_bytes", refused.bytes},
        std::pair{"queue_seconds", too_long_waits}}) {
    rejections.metric.push_back(metric({{"reason", reason}}));
    rejections.metric.back().counter.value = static_cast<double>(count);
  }
  families->push_back(std::move(rejections));
}

void EngineMetrics::add_times(const EngineStats& stats, Families* families) const {
  MetricFamily coordinator =
      family("coordinator_seconds_total", "All time of the engine's thread, by activity.",
             MetricType::Counter);
  for (int part = 0; part < kEngineParts; ++part) {
    coordinator.metric.push_back(
        metric({{"part", engine_part_name(static_cast<EnginePart>(part))}}));
    coordinator.metric.back().counter.value = seconds(stats.times_ns[static_cast<size_t>(part)]);
  }
  families->push_back(std::move(coordinator));

  MutexLock lock(&mutex_);
  add_counter("step_seconds_total", "From a step's start at the coordinator to its last answer.",
              seconds(step_ns_), families);
  MetricFamily workers =
      family("worker_seconds_total",
             "Time of steps, by rank and activity: compute, wait for peers, transfer bytes.",
             MetricType::Counter);
  const auto add = [&](const std::string& rank, const char* part, int64_t ns) {
    workers.metric.push_back(metric({{"rank", rank}, {"part", part}}));
    workers.metric.back().counter.value = seconds(ns);
  };
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::string name = std::to_string(rank);
    add(name, "compute", ranks_[rank].compute_ns);
    add(name, "wait", ranks_[rank].wait_ns);
    add(name, "transfer", ranks_[rank].transfer_ns);
  }
  families->push_back(std::move(workers));
}

void EngineMetrics::add_histograms(Families* families) const {
  add_histogram("time_to_first_token_seconds",
                "From a request's arrival to a choice's first token.", first_token_s_, families);
  add_histogram("inter_token_latency_seconds", "From a choice's token to its next.",
                between_tokens_s_, families);
  add_histogram("e2e_request_latency_seconds", "From a request's arrival to a choice's end.",
                request_s_, families);
  add_histogram("request_queue_time_seconds", "From a request's arrival to its first step.",
                queue_s_, families);
  add_histogram("request_prefill_time_seconds",
                "From a request's first step to a choice's first token.", prefill_s_, families);
  add_histogram("request_decode_time_seconds", "From a choice's first token to its last.",
                decode_s_, families);
  add_histogram("request_inference_time_seconds",
                "From a request's first step to a choice's last token.", inference_s_, families);
  add_histogram("request_params_n", "Choices per request.", choices_, families);
  add_histogram("request_params_max_tokens", "Max tokens of requests.", max_tokens_, families);
  add_histogram("request_prompt_tokens", "Prompt tokens of choices that ended.", prompt_tokens_,
                families);
  add_histogram("request_generation_tokens", "Tokens of choices that ended.", generation_tokens_,
                families);
  add_histogram("iteration_tokens_total",
                "Tokens of a step: those that it samples, and the computed tokens of each prompt "
                "whose first token it samples.",
                step_tokens_, families);
  add_histogram("request_num_preemptions", "How often an ended choice lost its pages.",
                preemptions_, families);
}

// ---- Prometheus' types ----

MetricFamily EngineMetrics::family(const char* name, const char* help, MetricType type) const {
  return {.name = prefix_ + ":" + name, .help = help, .type = type, .metric = {}};
}

ClientMetric EngineMetrics::metric(std::vector<ClientMetric::Label> labels) const {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.label.push_back({.name = "model_name", .value = model_name_});
  return metric;
}

void EngineMetrics::add_gauge(const char* name, const char* help, double value,
                              Families* families) const {
  families->push_back(family(name, help, MetricType::Gauge));
  families->back().metric.push_back(metric());
  families->back().metric.back().gauge.value = value;
}

void EngineMetrics::add_counter(const char* name, const char* help, double value,
                                Families* families) const {
  families->push_back(family(name, help, MetricType::Counter));
  families->back().metric.push_back(metric());
  families->back().metric.back().counter.value = value;
}

void EngineMetrics::add_histogram(const char* name, const char* help, const Histogram& histogram,
                                  Families* families) const {
  families->push_back(family(name, help, MetricType::Histogram));
  ClientMetric collected = histogram.Collect();
  collected.label = metric().label;
  families->back().metric.push_back(std::move(collected));
}

}  // namespace lockstep
