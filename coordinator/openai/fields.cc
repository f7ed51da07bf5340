// SPDX-License-Identifier: Apache-2.0
// The table of fields, and how each is read.
#include <algorithm>

#include "base/status.h"
#include "coordinator/openai/api_request.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/token_fields.h"
#include "coordinator/openai/values.h"

namespace lockstep::openai {
namespace {

constexpr size_t kMaxPrompts = 1024;

constexpr unsigned kBoth = kCompletions | kChat;
constexpr unsigned kTalks = kChat | kResponses;
constexpr unsigned kAll = kBoth | kResponses;

v1::GenerateRequest& message_of(ApiRequest* request) { return request->shared; }
v1::ChatMessages* chat_of(ApiRequest* request) { return message_of(request).mutable_chat(); }

bool is_empty_text(const OrderedJson& value) {
  const auto* text = value.get_ptr<const std::string*>();
  return text != nullptr && text->empty();
}

// ---- Fields that are GenerateRequest's, or nearly ----

absl::Status scalar(const Field& field, const OrderedJson& value, ApiRequest* request) {
  return set_scalar(field.name, value, field.grpc, &message_of(request));
}

absl::Status stop(const Field& field, const OrderedJson& value, ApiRequest* request) {
  const OrderedJson list = value.is_array() ? value : OrderedJson::array({value});
  for (const OrderedJson& one : list) {
    ASSIGN_OR_RETURN(*message_of(request).add_stop(), as_string(field.name, one));
  }
  return absl::OkStatus();
}

absl::Status stop_token_ids(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, as_ids(field.name, value));
  message_of(request).mutable_stop_ids()->Add(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status logit_bias(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (!value.is_object()) return wrong_value(field.name, "an object of token ids", value);
  for (const auto& [key, bias] : value.items()) {
    const OrderedJson id = OrderedJson::parse(key, nullptr, /*allow_exceptions=*/false);
    if (!id.is_number_integer()) {
      return wrong_value(field.name, "token ids as keys", OrderedJson(key));
    }
    ASSIGN_OR_RETURN(const int32_t token, as_int32(field.name, id));
    ASSIGN_OR_RETURN((*message_of(request).mutable_logit_bias())[token],
                     as_float(field.name, bias));
  }
  return absl::OkStatus();
}

absl::Status best_of(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(const int32_t count, as_int32(field.name, value));
  const int32_t n = message_of(request).has_n() ? message_of(request).n() : 1;
  if (n < 1) return wrong_value("n", "1 or more", OrderedJson(n));
  if (count < n) return refusal(field.name, fmt::format("want n ({}) or more, found {}", n, count));
  if (count == n) return absl::OkStatus();
  if (request->stream) return refusal(field.name, "cannot choose among answers that are streamed");
  // The best are those whose tokens are likeliest.
  if (!message_of(request).has_logprobs()) message_of(request).set_logprobs(0);
  message_of(request).set_n(count);
  request->n = n;
  return absl::OkStatus();
}

// ---- Prompts and conversations ----

absl::Status prompt(const Field& field, const OrderedJson& value, ApiRequest* request) {
  const bool is_list = value.is_array() && !value.empty() && !value[0].is_number();
  const OrderedJson list = is_list ? value : OrderedJson::array({value});
  if (list.size() > kMaxPrompts) {
    return refusal(field.name,
                   fmt::format("want up to {} prompts, found {}", kMaxPrompts, list.size()));
  }
  request->prompts.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (is_empty_text(list[i]) || list[i] == OrderedJson::array()) {
      return refusal(field.name, "want text or token ids, found an empty prompt");
    }
    if (list[i].is_string()) {
      request->prompts[i].set_prompt(list[i].get<std::string>());
    } else if (list[i].is_array()) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, as_ids(field.name, list[i]));
      request->prompts[i].mutable_prompt_ids()->mutable_ids()->Add(ids.begin(), ids.end());
    } else {
      return wrong_value(field.name, "a string, a list of token ids, or a list of these", list[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status messages(const Field&, const OrderedJson& value, ApiRequest* request) {
  return read_messages(value, chat_of(request));
}

absl::Status input(const Field&, const OrderedJson& value, ApiRequest* request) {
  return read_input(value, chat_of(request));
}

// Comes behind the input, and goes before it.
absl::Status instructions(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(std::string text, as_string(field.name, value));
  auto* messages = chat_of(request)->mutable_messages();
  v1::ChatMessage* system = messages->Add();
  system->set_role("system");
  system->set_content(std::move(text));
  std::rotate(messages->pointer_begin(), messages->pointer_end() - 1, messages->pointer_end());
  return absl::OkStatus();
}

absl::Status tools(const Field&, const OrderedJson& value, ApiRequest* request) {
  RETURN_IF_ERROR(request->endpoint == kChat ? read_tools(value, chat_of(request))
                                             : read_flat_tools(value, chat_of(request)));
  request->parses_tools = !value.empty();
  return absl::OkStatus();
}

absl::Status tool_choice(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (value == "auto") return absl::OkStatus();
  if (value != "none") {
    return wrong_value(field.name, "\"auto\" or \"none\" (this server cannot force a call yet)",
                       value);
  }
  chat_of(request)->clear_tools();  // A model that does not see them does not call them.
  request->parses_tools = false;
  return absl::OkStatus();
}

absl::Status parallel_tool_calls(const Field& field, const OrderedJson& value,
                                 ApiRequest* request) {
  ASSIGN_OR_RETURN(const bool parallel, as_bool(field.name, value));
  request->one_call = !parallel;
  return absl::OkStatus();
}

absl::Status documents(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (!value.is_array()) return wrong_value(field.name, "a list of objects", value);
  for (const OrderedJson& document : value) {
    if (!document.is_object()) return wrong_value(field.name, "a list of objects", document);
    chat_of(request)->add_documents(document.dump());
  }
  return absl::OkStatus();
}

absl::Status add_generation_prompt(const Field& field, const OrderedJson& value,
                                   ApiRequest* request) {
  ASSIGN_OR_RETURN(const bool flag, as_bool(field.name, value));
  chat_of(request)->set_add_generation_prompt(flag);
  return absl::OkStatus();
}

absl::Status continue_final_message(const Field& field, const OrderedJson& value,
                                    ApiRequest* request) {
  ASSIGN_OR_RETURN(const bool flag, as_bool(field.name, value));
  chat_of(request)->set_continue_final_message(flag);
  return absl::OkStatus();
}

absl::Status chat_template_kwargs(const Field& field, const OrderedJson& value,
                                  ApiRequest* request) {
  if (!value.is_object()) return wrong_value(field.name, "an object", value);
  chat_of(request)->set_template_variables(value.dump());
  return absl::OkStatus();
}

// Comes behind chat_template_kwargs, and goes before its value. A response has it in an object.
absl::Status effort(const Field& field, const OrderedJson& value, ApiRequest* request) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                           "high", "xhigh",   "max"};
  const bool is_member = request->endpoint == kResponses;
  if (is_member && !value.is_object()) return wrong_value(field.name, "an object", value);
  const OrderedJson* given = is_member ? member(value, "effort") : &value;
  if (given == nullptr) return absl::OkStatus();
  const std::string name = is_member ? "reasoning.effort" : field.name;
  ASSIGN_OR_RETURN(const std::string wanted, as_string(name, *given));
  if (std::ranges::find(kEfforts, wanted) == std::end(kEfforts)) {
    return wrong_value(name, "none, minimal, low, medium, high, xhigh or max", *given);
  }
  std::string& json = *chat_of(request)->mutable_template_variables();
  OrderedJson variables = OrderedJson::parse(json.empty() ? "{}" : json);
  variables["reasoning_effort"] = wanted;
  json = variables.dump();
  return absl::OkStatus();
}

// ---- The answer's form ----

template <bool ApiRequest::*kMember>
absl::Status flag(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(request->*kMember, as_bool(field.name, value));
  return absl::OkStatus();
}

absl::Status resumable(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(request->resumable, as_bool(field.name, value));
  if (!request->resumable) return absl::OkStatus();
  if (!request->stream) return refusal(field.name, "wants \"stream\": true beside it");
  const size_t prompts = request->prompts.size();
  if (prompts > 1) return refusal(field.name, fmt::format("want one prompt, found {}", prompts));
  message_of(request).set_resumable(true);
  return absl::OkStatus();
}

absl::Status stream_options(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (!value.is_object()) return wrong_value(field.name, "an object", value);
  if (!request->stream) return refusal(field.name, "wants \"stream\": true beside it");
  const auto include = value.find("include_usage");
  if (include == value.end() || include->is_null()) return absl::OkStatus();
  ASSIGN_OR_RETURN(request->include_usage, as_bool("stream_options.include_usage", *include));
  return absl::OkStatus();
}

absl::Status prompt_logprobs(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (request->stream) return refusal(field.name, "wants an answer that is not streamed");
  request->prompt_logprobs = true;
  return scalar(field, value, request);
}

// Comes behind prompt_logprobs: both are of the same log-probabilities.
absl::Status echo(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(request->echo, as_bool(field.name, value));
  if (!request->echo || !request->logprobs) return absl::OkStatus();
  v1::GenerateRequest& message = message_of(request);
  if (request->prompt_logprobs && message.prompt_logprobs() != message.logprobs()) {
    return refusal("prompt_logprobs",
                   fmt::format("beside echo wants as many as logprobs ({}), found {}",
                               message.logprobs(), message.prompt_logprobs()));
  }
  message.set_prompt_logprobs(message.logprobs());
  return absl::OkStatus();
}

// ---- What we can't do, but for the value that changes nothing ----

template <bool kOnly>
absl::Status only(const Field& field, const OrderedJson& value, ApiRequest*) {
  return value == kOnly ? absl::OkStatus() : refusal(field.name, field.note);
}

absl::Status never(const Field& field, const OrderedJson& value, ApiRequest*) {
  // An empty object is something: any JSON, or a search as usual.
  const bool is_nothing = is_empty_text(value) || value == OrderedJson::array() || value == false;
  return is_nothing ? absl::OkStatus() : refusal(field.name, field.note);
}

absl::Status text_alone(const Field& field, const OrderedJson& value, ApiRequest*) {
  const bool is_text = value == OrderedJson::array({"text"}) ||
                       (value.is_object() && value.value("type", OrderedJson()) == "text");
  return is_text ? absl::OkStatus() : refusal(field.name, field.note);
}

absl::Status text_format(const Field& field, const OrderedJson& value, ApiRequest* request) {
  const bool has_format = value.is_object() && value.contains("format");
  return has_format ? text_alone(field, value["format"], request) : absl::OkStatus();
}

absl::Status ignored(const Field&, const OrderedJson&, ApiRequest*) { return absl::OkStatus(); }

constexpr char kNoConstraints[] = "this server does not constrain output to a grammar yet";

constexpr Field kFields[] = {
    {"model", kAll, "", ignored, "The served model's name, else 404; may be left out"},
    {"prompt", kCompletions, "prompt, prompt_ids", prompt,
     "Text, token ids, or a list of up to 1024 of these"},
    {"messages", kChat, "chat.messages", messages, "Content as text, or a list of its parts"},
    {"input", kResponses, "chat.messages", input, "Text, or messages, calls and their outputs"},
    {"instructions", kResponses, "chat.messages", instructions, "The system message"},
    {"tools", kTalks, "chat.tools", tools, "Functions"},
    {"tool_choice", kTalks, "", tool_choice, "`auto` or `none`, which hides the tools"},
    {"parallel_tool_calls", kTalks, "", parallel_tool_calls,
     "false: calls after the first are dropped"},
    {"documents", kChat, "chat.documents", documents, "For templates that show them"},
    {"add_generation_prompt", kChat, "chat.add_generation_prompt", add_generation_prompt,
     "Default: true unless continue_final_message is"},
    {"continue_final_message", kChat, "chat.continue_final_message", continue_final_message, ""},
    {"chat_template_kwargs", kTalks, "chat.template_variables", chat_template_kwargs,
     "`enable_thinking`, `thinking`, `reasoning_effort`, and what `--template-vars` names; others "
     "are 400, unless the template reads none of that name"},
    {"reasoning_effort", kChat, "chat.template_variables", effort,
     "`none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`, for templates that read it; "
     "sets `enable_thinking`, too, unless it is set: false for `none`"},
    {"reasoning", kResponses, "chat.template_variables", effort,
     "Its `effort`, as chat's `reasoning_effort`"},
    {"max_tokens", kBoth, "max_tokens", scalar,
     "Default: 16 for completions; for chat the model's, else what the context has room for"},
    {"max_completion_tokens", kChat, "max_tokens", scalar, "Goes before max_tokens"},
    {"max_output_tokens", kResponses, "max_tokens", scalar, "Default: as for chat"},
    {"min_tokens", kAll, "min_tokens", scalar, ""},
    {"temperature", kAll, "temperature", scalar, ""},
    {"top_p", kAll, "top_p", scalar, ""},
    {"top_k", kAll, "top_k", scalar, "-1 is off, too"},
    {"min_p", kAll, "min_p", scalar, ""},
    {"repetition_penalty", kAll, "repetition_penalty", scalar, ""},
    {"presence_penalty", kAll, "presence_penalty", scalar, ""},
    {"frequency_penalty", kAll, "frequency_penalty", scalar, ""},
    {"logit_bias", kAll, "logit_bias", logit_bias, ""},
    {"seed", kAll, "seed", scalar, "Choice i draws with seed + i"},
    {"stop", kAll, "stop", stop, "A string or a list"},
    {"stop_token_ids", kAll, "stop_ids", stop_token_ids, ""},
    {"ignore_eos", kAll, "ignore_eos", scalar, ""},
    {"stream", kAll, "", flag<&ApiRequest::stream>, "gRPC always streams"},
    {"resumable", kAll, "resumable", resumable,
     "With `stream`, one prompt: runs on without its client, see [Streams](#streams-that-resume)"},
    {"stream_options", kBoth, "", stream_options, "`include_usage`"},
    {"logprobs", kBoth, "logprobs", logprobs, "A number for completions, true for chat"},
    {"include", kResponses, "", include,
     "`message.output_text.logprobs`; others are taken and not used"},
    {"top_logprobs", kTalks, "logprobs", top_logprobs, "With `logprobs`, or with `include`"},
    {"logprob_token_ids", kBoth, "logprob_ids", logprob_token_ids,
     "With `logprobs`: these tokens in place of the best ones"},
    {"return_token_ids", kBoth, "return_prompt_ids", return_token_ids,
     "`prompt_token_ids` and each choice's `token_ids`, in streams too"},
    {"return_tokens_as_token_ids", kBoth, "", return_tokens_as_token_ids,
     "Log-probabilities name tokens `token_id:5`"},
    {"allowed_token_ids", kBoth, "allowed_ids", allowed_token_ids, "Nothing else is drawn"},
    {"bad_words", kBoth, "bad_words", bad_words, "Words that the answer does not get"},
    {"add_special_tokens", kBoth, "add_special", scalar,
     "Begin and end tokens; default: true for completions, false for chat"},
    {"truncate_prompt_tokens", kBoth, "truncate_prompt_tokens", scalar,
     "-1: what the context has room for beside max_tokens"},
    {"truncation_side", kBoth, "truncation_side", scalar,
     "`left` (default): the last tokens stay; `right`"},
    {"n", kBoth, "n", scalar, ""},
    {"best_of", kCompletions, "n", best_of, "Answers that are drawn; `n` of them are returned"},
    {"prompt_logprobs", kBoth, "prompt_logprobs", prompt_logprobs,
     "As vLLM gives them, in each choice, or beside those of a chat; not streamed"},
    {"echo", kCompletions, "prompt_logprobs", echo,
     "With `logprobs` also those of the prompt's tokens"},
    {"prompt_embeds", kBoth, "prompt_embeds", never, "this server takes embeddings over gRPC"},
    {"suffix", kCompletions, "", never, "this server does not insert text before a suffix"},
    {"response_format", kBoth, "", text_alone, kNoConstraints},
    {"structured_outputs", kBoth, "", never, kNoConstraints},
    {"guided_json", kBoth, "", never, kNoConstraints},
    {"guided_regex", kBoth, "", never, kNoConstraints},
    {"guided_choice", kBoth, "", never, kNoConstraints},
    {"guided_grammar", kBoth, "", never, kNoConstraints},
    {"functions", kChat, "", never, "is the former name of tools, which this server wants"},
    {"function_call", kChat, "", never,
     "is the former name of tool_choice, which this server wants"},
    {"text", kResponses, "", text_format, kNoConstraints},
    {"previous_response_id", kResponses, "", never,
     "this server keeps no responses: send all input"},
    {"conversation", kResponses, "", never, "this server keeps no conversations: send all input"},
    {"background", kResponses, "", only<false>, "this server keeps no responses"},
    {"modalities", kChat, "", text_alone, "this server writes text alone"},
    {"audio", kChat, "", never, "this server writes text alone"},
    {"web_search_options", kChat, "", never, "this server searches nothing"},
    {"skip_special_tokens", kBoth, "", flag<&ApiRequest::skips_special>,
     "false: special tokens are in the text, but for the end token"},
    {"include_stop_str_in_output", kBoth, "", only<false>,
     "this server ends the text before a stop string"},
    {"priority", kAll, "priority", scalar, "Lower is served first"},
    {"cache_salt", kAll, "cache_salt", scalar, "Cached prompts serve the same salt only"},
    {"user", kAll, "", ignored, "Taken and not used"},
    {"store", kAll, "", ignored, "Nothing is stored"},
    {"metadata", kAll, "", ignored, "Taken and not used"},
    {"service_tier", kAll, "", ignored, "Taken and not used"},
    {"truncation", kResponses, "", ignored, "Nothing is cut: what is too long is refused"},
};

// What goes before the note of a field that has one value alone.
const char* allowed(const Field& field) {
  if (field.read == only<false>) return "`false`; else 400: ";
  if (field.read == text_alone || field.read == text_format) return "Text; else 400: ";
  return field.read == never ? "400: " : "";
}

}  // namespace

std::span<const Field> fields() { return kFields; }

std::string parity_table() {
  std::string table =
      "| JSON | completions | chat | responses | gRPC | |\n| --- | --- | --- | --- | --- | --- |\n";
  const auto has = [](const Field& field, Endpoint endpoint) {
    return (field.endpoints & endpoint) != 0 ? "yes" : "";
  };
  for (const Field& field : kFields) {
    const std::string grpc = field.grpc[0] == '\0' ? "" : fmt::format("`{}`", field.grpc);
    table +=
        fmt::format("| `{}` | {} | {} | {} | {} | {}{} |\n", field.name, has(field, kCompletions),
                    has(field, kChat), has(field, kResponses), grpc, allowed(field), field.note);
  }
  return table;
}

}  // namespace lockstep::openai
