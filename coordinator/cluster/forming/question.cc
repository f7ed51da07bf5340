// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/forming/question.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/status.h"
#include "proto/candidates.h"

namespace lockstep {
namespace {

constexpr size_t kMaxReason = 1'000;              // Bytes of a failure's message that are logged.
constexpr size_t kMaxText = 256;                  // Bytes of a text in Hello or Ready.
constexpr int64_t kMaxLinears = 65'536;           // In a program.
constexpr int64_t kMaxStepNs = int64_t{1} << 50;  // 13 days: sums stay in range.

absl::Status check_speed(std::string_view name, double found) {
  if (std::isfinite(found) && found >= 0) return absl::OkStatus();
  return invalid_argument("{}: must be 0 or more, found {}", name, found);
}

absl::Status check_text(std::string_view name, std::string_view text) {
  if (text.size() <= kMaxText) return absl::OkStatus();
  return invalid_argument("{}: must be at most {} bytes, found {}", name, kMaxText, text.size());
}

absl::Status check_ready(const cluster::Ready& ready) {
  RETURN_IF_ERROR(check_range("Ready.pages", ready.pages(), 1, INT64_MAX));
  RETURN_IF_ERROR(check_range("Ready.sequences", ready.sequences(), 0, INT64_MAX));
  RETURN_IF_ERROR(check_range("Ready.weight_bytes", ready.weight_bytes(), 0, kMaxWeightBytes));
  RETURN_IF_ERROR(check_range("Ready.kernels", ready.kernels_size(), 0, kMaxLinears));
  for (const std::string& names : ready.kernels()) {
    RETURN_IF_ERROR(check_text("Ready.kernels", names));
  }
  RETURN_IF_ERROR(check_text("Ready.written_at", ready.written_at()));
  return check_text("Ready.contents", ready.contents());
}

// Operators must be in order, without overlap, within the step.
absl::Status check_trace(const cluster::StepTrace& trace, int instructions) {
  RETURN_IF_ERROR(check_range("StepTrace.total_ns", trace.total_ns(), 0, kMaxStepNs));
  const int count = trace.instructions_size();
  RETURN_IF_ERROR(check_range("StepTrace.instructions", count, 0, instructions));
  RETURN_IF_ERROR(check_range("StepTrace.begin_ns", trace.begin_ns_size(), count, count));
  RETURN_IF_ERROR(check_range("StepTrace.duration_ns", trace.duration_ns_size(), count, count));
  RETURN_IF_ERROR(check_range("StepTrace.wait_ns", trace.wait_ns_size(), count, count));
  int next = 0;
  int64_t free_ns = 0;  // The end of the previous operator.
  for (int i = 0; i < count; ++i) {
    const int64_t begin = trace.begin_ns(i), duration = trace.duration_ns(i);
    RETURN_IF_ERROR(
        check_range("StepTrace.instructions", trace.instructions(i), next, instructions - 1));
    RETURN_IF_ERROR(check_range("StepTrace.begin_ns", begin, free_ns, trace.total_ns()));
    RETURN_IF_ERROR(check_range("StepTrace.duration_ns", duration, 0, trace.total_ns() - begin));
    RETURN_IF_ERROR(check_range("StepTrace.wait_ns", trace.wait_ns(i), 0, duration));
    next = trace.instructions(i) + 1;
    free_ns = begin + duration;
  }
  return absl::OkStatus();
}

absl::Status check_result(const Question& question, int instructions,
                          const cluster::StepResult& result) {
  if (result.step() != question.step) {
    return invalid_argument("StepResult.step: must be {}, found {}", question.step, result.step());
  }
  const auto outputs = static_cast<int>(question.outputs.size());
  RETURN_IF_ERROR(check_range("StepResult.outputs", result.outputs_size(), outputs, outputs));
  for (int i = 0; i < outputs; ++i) {
    RETURN_IF_ERROR(check_candidates(result.outputs(i), question.outputs[i], question.vocab));
  }
  const cluster::StepTimes& times = result.times();
  RETURN_IF_ERROR(check_range("StepTimes.compute_ns", times.compute_ns(), 0, INT64_MAX));
  RETURN_IF_ERROR(check_range("StepTimes.wait_ns", times.wait_ns(), 0, INT64_MAX));
  RETURN_IF_ERROR(check_range("StepTimes.transfer_ns", times.transfer_ns(), 0, INT64_MAX));
  if (!question.values && result.values_size() > 0) {
    return invalid_argument("StepResult.values: must be none, found {}", result.values_size());
  }
  if (!result.has_trace()) return absl::OkStatus();
  if (!question.trace) return invalid_argument("StepResult.trace: must be none, found one");
  return check_trace(result.trace(), instructions);
}

absl::Status check_reply(const Question& question, const cluster::LogitsReply& reply) {
  if (reply.step() != question.step || reply.output() != question.output) {
    return invalid_argument("LogitsReply: must be output {} of step {}, found {} of {}",
                            question.output, question.step, reply.output(), reply.step());
  }
  return check_logits(reply.logits(), question.vocab);
}

}  // namespace

Question question_of(const cluster::CoordinatorMessage& message, int64_t vocab) {
  if (message.has_logits()) {
    return {.kind = Question::Kind::kLogits,
            .step = message.logits().step(),
            .output = message.logits().output(),
            .vocab = vocab};
  }
  Question question = {
      .kind = Question::Kind::kStep, .step = message.step().step(), .vocab = vocab};
  question.trace = message.step().trace();
  question.values = message.step().has_values();
  for (const cluster::Output& output : message.step().outputs()) {
    question.outputs.push_back(counts_of(output));
  }
  return question;
}

absl::Status check_answer(const Question& question, int instructions,
                          const cluster::WorkerMessage& answer) {
  switch (question.kind) {
    case Question::Kind::kReady:
      if (answer.has_ready()) return check_ready(answer.ready());
      return invalid_argument("must be Ready, found another message");
    case Question::Kind::kStep:
      if (answer.has_result()) return check_result(question, instructions, answer.result());
      return invalid_argument("must be the result of step {}, found another message",
                              question.step);
    case Question::Kind::kLogits:
      if (answer.has_logits()) return check_reply(question, answer.logits());
      return invalid_argument("must be logits of step {}, found another message", question.step);
  }
  return absl::OkStatus();
}

absl::Status check_hello(const cluster::Hello& hello) {
  RETURN_IF_ERROR(check_text("Hello.device", hello.device()));
  RETURN_IF_ERROR(check_text("Hello.isa", hello.isa()));
  RETURN_IF_ERROR(check_text("Hello.host", hello.host()));
  RETURN_IF_ERROR(check_text("Hello.numeric_class", hello.numeric_class()));
  RETURN_IF_ERROR(check_text("Hello.data_address", hello.data_address()));
  RETURN_IF_ERROR(check_range("Hello.memory_bytes", hello.memory_bytes(), 0, INT64_MAX));
  RETURN_IF_ERROR(check_range("Hello.threads", hello.threads(), 0, 65'536));
  RETURN_IF_ERROR(check_range("Hello.pid", hello.pid(), 0, INT32_MAX));
  RETURN_IF_ERROR(check_range("Hello.preferred_rank", hello.preferred_rank(), -1, 65'536));
  RETURN_IF_ERROR(check_speed("Hello.speed", hello.speed()));
  return check_speed("Hello.read_rate", hello.read_rate());
}

absl::Status check_progress(const cluster::LoadProgress& progress) {
  RETURN_IF_ERROR(
      check_range("LoadProgress.bytes_total", progress.bytes_total(), 0, kMaxWeightBytes));
  return check_range("LoadProgress.bytes_done", progress.bytes_done(), 0, progress.bytes_total());
}

absl::Status check_preloaded(const cluster::Preloaded& preloaded) {
  return check_range("Preloaded.weight_bytes", preloaded.weight_bytes(), 0, kMaxWeightBytes);
}

absl::Status status_of(const cluster::Failure& failure) {
  std::string text = failure.message().substr(0, kMaxReason);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  const bool known = 0 < failure.code() && failure.code() <= 16;
  const auto code =
      known ? static_cast<absl::StatusCode>(failure.code()) : absl::StatusCode::kUnknown;
  return absl::Status(code, text);
}

}  // namespace lockstep
