// SPDX-License-Identifier: Apache-2.0
#include "tools/load/report.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

// The client has one thread. If it is busier than this, it measures its own delays.
constexpr double kBusyClient = 0.7;

OrderedJson to_json(const Distribution& values) {
  return {{"count", values.count}, {"mean", values.mean}, {"p50", values.p50},
          {"p90", values.p90},     {"p99", values.p99},   {"max", values.max}};
}

OrderedJson to_json(const std::optional<double>& bound) {
  return bound.has_value() ? OrderedJson(*bound) : OrderedJson();
}

std::string table_row(const char* name, const Distribution& values) {
  if (values.count == 0) return fmt::format("{:<24}{:>10}\n", name, "-");
  return fmt::format("{:<24}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}\n", name, values.mean,
                     values.p50, values.p90, values.p99, values.max);
}

std::string slo_text(const Slo& slo) {
  std::string text;
  if (slo.ttft_ms.has_value()) text += fmt::format("TTFT {} ms", *slo.ttft_ms);
  if (slo.ttft_ms.has_value() && slo.tpot_ms.has_value()) text += " and ";
  if (slo.tpot_ms.has_value()) text += fmt::format("TPOT {} ms", *slo.tpot_ms);
  return text;
}

std::string warnings(const LoadReport& report) {
  std::string text;
  if (report.summary.uncounted > 0) {
    text += fmt::format("note        {} answers had no usage: their events are counted as tokens\n",
                        report.summary.uncounted);
  }
  if (report.client_cpu > kBusyClient) {
    text += fmt::format(
        "note        the client itself was busy for {:.0f} % of the time: it may limit the "
        "figures\n",
        100 * report.client_cpu);
  }
  if (report.in_flight > 0) {
    text += fmt::format("note        interrupted: {} requests were in flight and are not counted\n",
                        report.in_flight);
  }
  return text;
}

}  // namespace

OrderedJson to_json(const LoadReport& report) {
  const LoadSummary& summary = report.summary;
  OrderedJson failures = OrderedJson::object();
  for (const auto& [kind, failure] : summary.failures) {
    failures[kind] = {{"count", failure.count}, {"example", failure.example}};
  }
  return {{"url", report.url},
          {"model", report.model},
          {"endpoint", report.endpoint},
          {"load", report.load},
          {"duration_s", summary.duration_s},
          {"requests", summary.requests},
          {"answered", summary.answered},
          {"failed", summary.requests - summary.answered},
          {"interrupted", report.in_flight},
          {"prompt_tokens", summary.prompt_tokens},
          {"output_tokens", summary.output_tokens},
          {"answers_without_usage", summary.uncounted},
          {"requests_per_s", summary.per_second(summary.answered)},
          {"output_tokens_per_s", summary.per_second(summary.output_tokens)},
          {"slo_ttft_ms", to_json(report.slo.ttft_ms)},
          {"slo_tpot_ms", to_json(report.slo.tpot_ms)},
          {"good", summary.good},
          {"goodput_per_s", summary.per_second(summary.good)},
          {"ttft_ms", to_json(summary.ttft_ms)},
          {"tpot_ms", to_json(summary.tpot_ms)},
          {"gap_ms", to_json(summary.gap_ms)},
          {"e2e_ms", to_json(summary.e2e_ms)},
          {"late_ms", to_json(summary.late_ms)},
          {"client_cpu", report.client_cpu},
          {"failures", failures}};
}

std::string to_text(const LoadReport& report) {
  const LoadSummary& summary = report.summary;
  std::string text = fmt::format(
      "server      {}, model {}, {}\n"
      "load        {}\n"
      "requests    {} in {:.1f} s: {} answered ({:.2f}/s), {} failed\n"
      "tokens      {} of prompts, {} of answers: {:.1f} tokens/s\n",
      report.url, report.model, report.endpoint, report.load, summary.requests, summary.duration_s,
      summary.answered, summary.per_second(summary.answered), summary.requests - summary.answered,
      summary.prompt_tokens, summary.output_tokens, summary.per_second(summary.output_tokens));
  if (const std::string slo = slo_text(report.slo); !slo.empty()) {
    text += fmt::format("goodput     {:.2f} requests/s within {}: {} of {}\n",
                        summary.per_second(summary.good), slo, summary.good, summary.requests);
  }
  text += fmt::format("\n{:<24}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "ms", "mean", "p50", "p90", "p99",
                      "max");
  text += table_row("to the first token", summary.ttft_ms);
  text += table_row("per token after it", summary.tpot_ms);
  text += table_row("between events", summary.gap_ms);
  text += table_row("to the end", summary.e2e_ms);
  text += table_row("sent late", summary.late_ms);
  for (const auto& [kind, failure] : summary.failures) {
    text += fmt::format("failed      {} x {}: {}\n", failure.count, kind, failure.example);
  }
  return text + warnings(report);
}

}  // namespace lockstep
