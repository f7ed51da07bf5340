// SPDX-License-Identifier: Apache-2.0
// Writes a stream's events as those of /v1/responses: output items that begin, grow and end.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/openai/answers/answer_format.h"
#include "coordinator/openai/answers/choice_reader.h"
#include "coordinator/openai/answers/event_writer.h"
#include "coordinator/openai/answers/logprobs.h"

namespace lockstep::openai {

// The request's fields that a response repeats, with the defaults, as the text of a JSON object.
// The text is kept until the end of the answer; JSON values would take many times the memory.
// kInvalidArgument: the text is too long.
absl::StatusOr<std::string> repeated_fields(const OrderedJson& request);

// Writes one choice. A stream's event may become several events of the response; the last one gets
// the stream event's id.
class ResponseWriter final : public EventWriter {
 public:
  explicit ResponseWriter(std::shared_ptr<const AnswerFacts> facts);

  void write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
             std::string* bytes) override;
  void skip(const StreamEvent& event, size_t prompt) override;
  void end(std::optional<uint64_t> id, std::string* bytes) override;
  void done(std::string* bytes) override;
  void fail(const absl::Status& status, std::string* bytes) override;

  // The text of the whole response, from all its events or from their output.
  std::string response(std::span<const StreamEvent> all);
  std::string response(const OutputDelta& all, FinishReason reason, const UsageCounts& usage);

 private:
  enum class Kind { kThought, kMessage, kCall };
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id;
    std::string text;  // For a call: its arguments.
    std::string name;  // The name of a call.
    std::string call_id;
    std::string logprobs;  // For a message: entries of a list, as JSON.
  };

  // The log-probabilities of the tokens that show this text of a message, as entries of a list.
  std::string take_logprobs(const std::string& text);
  void take(const StreamEvent& event);
  void take(const OutputDelta& added);
  void finish(FinishReason reason, const UsageCounts& usage);
  void add_text(Kind kind, const std::string& text);
  void add_call(const CallDelta& call);
  void open(Item item);
  void close();
  // An item without its content; its content's only part; the whole item.
  static OrderedJson item_head(const Item& item, const char* status);
  static std::string part_text(const Item& item);
  static std::string item_text(const Item& item, const char* status);
  std::string response_text(const char* status) const;
  OrderedJson usage_json() const;
  const char* final_status() const;
  const char* item_status() const;
  // The position of the open item.
  OrderedJson place() const;
  // Adds an event. If `name` is given, the event gets a member of this name; `value` is its JSON
  // text.
  void emit(const char* type, const OrderedJson& event, const char* name = nullptr,
            std::string_view value = {});
  void emit_response(const char* type, const char* status);
  void flush(std::optional<uint64_t> id, std::string* bytes);

  const std::shared_ptr<const AnswerFacts> facts_;
  ChoiceReader reader_;
  LogprobWriter logprobs_;
  std::vector<TokenEntry> unshown_;  // Tokens whose text was not shown yet.
  bool emits_ = true;                // False if only the whole response is needed.
  bool skips_ = false;               // Events are counted, not made.
  std::vector<Item> items_;
  bool is_open_ = false;  // Whether the last item is open.
  bool begun_ = false;
  FinishReason finish_reason_ = FinishReason::kNone;
  UsageCounts usage_;
  int64_t sequence_ = 0;
  std::vector<std::pair<const char*, std::string>> events_;  // Their type and data, to be written.
};

}  // namespace lockstep::openai
