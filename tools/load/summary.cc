// SPDX-License-Identifier: Apache-2.0
#include "tools/load/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {
namespace {

// By nearest rank, for sorted values; at least one.
double percentile(std::span<const double> sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

int64_t output_tokens_of(const LoadRecord& record) {
  return record.output_tokens > 0 ? record.output_tokens : record.text_events;
}

double ttft_ms_of(const LoadRecord& record) {
  return 1000 * (record.first_text_s - record.scheduled_s);
}

std::optional<double> tpot_ms_of(const LoadRecord& record) {
  const int64_t tokens = output_tokens_of(record);
  if (tokens < 2) return std::nullopt;
  return 1000 * (record.last_text_s - record.first_text_s) / static_cast<double>(tokens - 1);
}

bool is_good(const LoadRecord& record, const Slo& slo) {
  if (slo.ttft_ms.has_value() && ttft_ms_of(record) > *slo.ttft_ms) return false;
  return !slo.tpot_ms.has_value() || tpot_ms_of(record).value_or(0) <= *slo.tpot_ms;
}

}  // namespace

Distribution distribution_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  return {.count = static_cast<int64_t>(values.size()),
          .mean = std::accumulate(values.begin(), values.end(), 0.0) / count,
          .p50 = percentile(values, 50),
          .p90 = percentile(values, 90),
          .p99 = percentile(values, 99),
          .max = values.back()};
}

double LoadSummary::per_second(int64_t count) const {
  return duration_s > 0 ? static_cast<double>(count) / duration_s : 0;
}

LoadSummary summarize(std::span<const LoadRecord> records, const Slo& slo) {
  LoadSummary summary{.requests = static_cast<int64_t>(records.size())};
  std::vector<double> ttft, tpot, gaps, e2e, late;
  double begin_s = INFINITY, end_s = -INFINITY;
  for (const LoadRecord& record : records) {
    begin_s = std::min(begin_s, record.scheduled_s);
    end_s = std::max(end_s, record.end_s);
    late.push_back(1000 * (record.sent_s - record.scheduled_s));
    if (!record.failure.empty()) {
      LoadFailure& failure = summary.failures[record.failure];
      if (failure.count++ == 0) failure.example = record.detail;
      continue;
    }
    ++summary.answered;
    if (is_good(record, slo)) ++summary.good;
    if (record.output_tokens == 0 && record.text_events > 0) ++summary.uncounted;
    summary.prompt_tokens += record.prompt_tokens;
    summary.output_tokens += output_tokens_of(record);
    ttft.push_back(ttft_ms_of(record));
    if (const auto time = tpot_ms_of(record)) tpot.push_back(*time);
    gaps.insert(gaps.end(), record.gaps_ms.begin(), record.gaps_ms.end());
    e2e.push_back(1000 * (record.end_s - record.scheduled_s));
  }
  if (!records.empty()) summary.duration_s = end_s - begin_s;
  summary.ttft_ms = distribution_of(std::move(ttft));
  summary.tpot_ms = distribution_of(std::move(tpot));
  summary.gap_ms = distribution_of(std::move(gaps));
  summary.e2e_ms = distribution_of(std::move(e2e));
  summary.late_ms = distribution_of(std::move(late));
  return summary;
}

}  // namespace lockstep
