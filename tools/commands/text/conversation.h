// SPDX-License-Identifier: Apache-2.0
// The state of a conversation, and its next turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "coordinator/engine/engine.h"
#include "coordinator/model/model.h"
#include "coordinator/output/format.h"
#include "proto/generate.pb.h"

namespace lockstep {

// Figures of an answer.
struct AnswerStats {
  int64_t prompt_tokens = 0;
  int64_t tokens = 0;
  double first_seconds = 0;  // Until the first token.
  double seconds = 0;
  bool stopped = false;  // By stop().
};

// One thread, except stop().
class Conversation {
 public:
  // Shows a piece of an answer.
  using Show = std::function<void(std::string_view text, bool is_thought)>;

  // `request`: the sampling options. If it has a seed, the first answer uses it, and each further
  // answer uses the next number. Model and engine must outlive the conversation.
  Conversation(const Model* model, Engine* engine, v1::GenerateRequest request,
               const std::string& system);

  // Generates the model's answer to `text`. Both become part of the conversation. If stop() ended
  // the answer, its text until then does. After an error the conversation is unchanged.
  absl::StatusOr<AnswerStats> say(const std::string& text, const Show& show);
  // Generates the last answer again. kInvalidArgument: there is none.
  absl::StatusOr<AnswerStats> regenerate(const Show& show);
  void reset();
  // Stops the running answer, if any. Any thread.
  void stop() ABSL_LOCKS_EXCLUDED(mutex_);

  int messages() const { return request_.chat().messages_size(); }

 private:
  absl::StatusOr<AnswerStats> answer(const Show& show);
  absl::StatusOr<AnswerStats> follow(const EngineRequest& request,
                                     const std::shared_ptr<Stream>& stream, const Show& show);
  void add(const std::string& role, const std::string& content);

  const Model* const model_;
  Engine* const engine_;
  const Format* thoughts_ = nullptr;
  v1::GenerateRequest request_;  // Its chat is the conversation.
  const std::string system_;

  Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep
