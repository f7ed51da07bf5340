// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/fields/field_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "coordinator/openai/fields/field_readers.h"

namespace lockstep::openai {
namespace {

using namespace read;  // NOLINT(google-build-using-namespace): the table uses few other names.

constexpr unsigned kBoth = kCompletions | kChat;
constexpr unsigned kTalks = kChat | kResponses;
constexpr unsigned kAll = kBoth | kResponses;
constexpr unsigned kText = kCompletions | kTokenize;
constexpr unsigned kTemplated = kChat | kTokenize;

constexpr char kKeepsNone[] = "this server keeps no responses: send all input";
constexpr char kChatHasIt[] = "use it with /v1/chat/completions";
constexpr char kTextAlone[] = "this server writes only text";
constexpr char kTokenByToken[] =
    "this server samples with temperature, top_k, top_p and min_p: use these";
constexpr char kPenalties[] =
    "this server has repetition_penalty, presence_penalty and frequency_penalty: use these";
constexpr char kHidden[] = "this server shows special tokens only to parsers";
constexpr char kByCommand[] = "this server runs no code and loads no weights of requests";
constexpr char kNotUsed[] = "Accepted and ignored";

constexpr Field kFields[] = {
    {"model", kAll | kTokenize | kDetokenize, "", model,
     "A name of the served model, else 404; may be left out"},
    // ---- Prompts and conversations ----
    {"prompt", kText, "prompt, prompt_ids", prompt,
     "Text, token ids, or a list of up to 1024 of these; /tokenize takes text"},
    {"tokens", kDetokenize, "", tokens, "Token ids, only for /detokenize"},
    {"messages", kTemplated, "chat.messages", messages, "Content as text, or a list of its parts"},
    {"input", kResponses, "chat.messages", input, "Text, or messages, calls and their outputs"},
    {"instructions", kResponses, "chat.messages", instructions, "The system message"},
    {"tools", kTalks | kTokenize, "chat.tools", tools, "Functions"},
    {"tool_choice", kTalks | kTokenize, "", tool_choice, "`auto` or `none`, which hides the tools"},
    {"parallel_tool_calls", kTalks, "", parallel_tool_calls,
     "false: calls after the first are dropped"},
    {"documents", kTemplated, "chat.documents", documents, "For templates that show them"},
    {"add_generation_prompt", kTemplated, "chat.add_generation_prompt", add_generation_prompt,
     "Default: true unless continue_final_message is true"},
    {"continue_final_message", kTemplated, "chat.continue_final_message", continue_final_message,
     ""},
    {"chat_template_kwargs", kTalks | kTokenize, "chat.template_variables", chat_template_kwargs,
     "`enable_thinking`, `thinking`, `reasoning_effort`, and what `--template-vars` names; others "
     "are 400 if the template reads them, else ignored"},
    {"reasoning_effort", kTemplated, "chat.template_variables", effort,
     "`none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`, for templates that read it; "
     "also sets `enable_thinking` (false for `none`, else true), unless the request sets it"},
    {"reasoning", kResponses, "chat.template_variables", effort,
     "Its `effort` is the same as chat's `reasoning_effort`"},
    {"add_special_tokens", kAll | kTokenize, "add_special", scalar,
     "Begin and end tokens; default: true for `prompt`, false for `messages`, whose template "
     "writes them"},
    {"truncate_prompt_tokens", kAll, "truncate_prompt_tokens", scalar,
     "-1: as many tokens as fit into the context together with max_tokens"},
    {"truncation_side", kAll, "truncation_side", scalar,
     "`left` (default): the last tokens stay; `right`: the first ones"},
    {"return_token_strs", kTokenize, "", flag<&ApiRequest::return_token_strs>,
     "Also the text of each token, for up to 262144 tokens"},
    // ---- Sampling ----
    {"n_predict", kAll, "max_tokens", scalar_or_all, "llama.cpp's `max_tokens`; -1: no limit"},
    {"max_new_tokens", kAll, "max_tokens", scalar, "Another name of `max_tokens`"},
    {"max_tokens", kAll, "max_tokens", scalar,
     "Default: `--max-tokens-default`; else 16 for completions, for others the model's default, "
     "else the rest of the context. An answer also ends when the context is full"},
    {"max_completion_tokens", kChat, "max_tokens", scalar, "Overrides max_tokens"},
    {"max_output_tokens", kResponses, "max_tokens", scalar, "Overrides max_tokens"},
    {"min_tokens", kAll, "min_tokens", scalar, ""},
    {"temperature", kAll, "temperature", scalar, ""},
    {"top_p", kAll, "top_p", scalar, ""},
    {"top_k", kAll, "top_k", scalar_or_off, "-1 also switches it off"},
    {"min_p", kAll, "min_p", scalar, ""},
    {"repeat_penalty", kAll, "repetition_penalty", scalar, "llama.cpp's `repetition_penalty`"},
    {"repetition_penalty", kAll, "repetition_penalty", scalar, ""},
    {"presence_penalty", kAll, "presence_penalty", scalar, ""},
    {"frequency_penalty", kAll, "frequency_penalty", scalar, ""},
    {"logit_bias", kAll, "logit_bias", logit_bias, ""},
    {"seed", kAll, "seed", scalar_or_default, "Choice i samples with seed + i; -1: a random seed"},
    {"stop", kAll, "stop", stop, "A string or a list"},
    {"stop_token_ids", kAll, "stop_ids", stop_token_ids, ""},
    {"ignore_eos", kAll, "ignore_eos", scalar, ""},
    {"allowed_token_ids", kAll, "allowed_ids", allowed_token_ids, "No other token is sampled"},
    {"bad_words", kAll, "bad_words", bad_words, "Words that the answer must not contain"},
    {"priority", kAll, "priority", scalar,
     "Lower numbers are served first; below 0 only if the API key allows it"},
    {"cache_salt", kAll, "cache_salt", scalar, "Cached prompts are reused only for the same salt"},
    // ---- The answer's form ----
    {"stream", kAll, "", flag<&ApiRequest::stream>, "gRPC always streams"},
    {"resumable", kAll, "resumable", resumable,
     "Needs `stream` and one prompt; the answer continues without its client, see "
     "[Streams](#streams-that-resume)"},
    {"stream_options", kAll, "", stream_options,
     "`include_usage`, and with it `continuous_usage_stats`: usage so far in every chunk. "
     "Responses always have the usage"},
    {"logprobs", kBoth, "logprobs", logprobs,
     "Completions: a number of tokens; chat: true or false"},
    {"include", kResponses, "", include, "`message.output_text.logprobs`; others are ignored"},
    {"top_logprobs", kTalks, "logprobs", top_logprobs, "With `logprobs`, or with `include`"},
    {"logprob_token_ids", kBoth, "logprob_ids", logprob_token_ids,
     "With `logprobs`: these tokens in place of the best ones"},
    {"return_token_ids", kBoth, "return_prompt_ids", flag<&ApiRequest::token_ids>,
     "`prompt_token_ids` and each choice's `token_ids`, in streams too"},
    {"return_tokens_as_token_ids", kBoth, "", flag<&ApiRequest::tokens_as_ids>,
     "Log-probabilities name tokens `token_id:5`"},
    {"skip_special_tokens", kBoth, "", flag<&ApiRequest::skips_special>,
     "false: special tokens are in the text, except the end token"},
    {"n", kBoth, "n", scalar, ""},
    {"best_of", kCompletions, "n", best_of,
     "The number of sampled answers; the best `n` of them are returned"},
    {"prompt_logprobs", kBoth, "prompt_logprobs", prompt_logprobs,
     "As in vLLM, in each choice, or next to the choices of a chat; not streamed"},
    {"echo", kCompletions, "prompt_logprobs", echo,
     "With `logprobs`, the prompt's tokens have log-probabilities, too"},
    {"echo", kChat, "", flag<&ApiRequest::echo>,
     "The last message before the answer, if it is the assistant's"},
    {"include_reasoning", kTalks, "", flag<&ApiRequest::include_reasoning>,
     "false: thoughts are dropped"},
    {"text", kResponses, "", text,
     "Its `format` must be text and its `verbosity` medium, else 400"},
    // ---- Refused ----
    {"prompt_embeds", kAll, "prompt_embeds", refused,
     "this server takes embeddings only over gRPC"},
    {"input_embeds", kAll, "", refused, "this server takes embeddings only over gRPC"},
    {"input_ids", kAll, "", refused, "use prompt, of /v1/completions, with a list of token ids"},
    {"prompt", kResponses, "", refused, "this server keeps no prompts: use input"},
    {"suffix", kCompletions, "", refused, "this server does not insert text before a suffix"},
    {"chat_template", kTalks | kTokenize, "", refused,
     "this server takes one only when it starts: --chat-template"},
    {"functions", kTalks, "", refused, "is the former name of tools: use tools"},
    {"function_call", kTalks, "", refused, "is the former name of tool_choice: use tool_choice"},
    {"response_format", kAll, "", refused, kNoGrammar, R"({"type": "text"})"},
    {"structured_outputs", kAll, "", refused, kNoGrammar},
    {"structural_tag", kAll, "", refused, kNoGrammar},
    {"guided_json", kAll, "", refused, kNoGrammar},
    {"guided_regex", kAll, "", refused, kNoGrammar},
    {"guided_choice", kAll, "", refused, kNoGrammar},
    {"guided_grammar", kAll, "", refused, kNoGrammar},
    {"grammar", kAll, "", refused, kNoGrammar},
    {"json_schema", kAll, "", refused, kNoGrammar},
    {"regex", kAll, "", refused, kNoGrammar},
    {"ebnf", kAll, "", refused, kNoGrammar},
    {"stop_regex", kAll, "", refused, "this server stops at texts: use stop"},
    {"use_beam_search", kAll, "", refused, kTokenByToken},
    {"do_sample", kAll, "", refused, "use \"temperature\": 0 for the likeliest tokens", "true"},
    {"mirostat", kAll, "", refused, kTokenByToken, "0"},
    {"typical_p", kAll, "", refused, kTokenByToken, "1"},
    {"typ_p", kAll, "", refused, kTokenByToken, "1"},
    {"tfs_z", kAll, "", refused, kTokenByToken, "1"},
    {"top_a", kAll, "", refused, kTokenByToken, "0"},
    {"top_n_sigma", kAll, "", refused, kTokenByToken, "-1, 0"},
    {"dynatemp_range", kAll, "", refused, kTokenByToken, "0"},
    {"xtc_probability", kAll, "", refused, kTokenByToken, "0"},
    {"samplers", kAll, "", refused, kTokenByToken},
    {"dry_multiplier", kAll, "", refused, kPenalties, "0"},
    {"repeat_last_n", kAll, "", refused, "repetition_penalty applies to all tokens here", "-1"},
    {"repetition_detection", kAll, "", refused, kPenalties},
    {"custom_logit_processor", kAll, "", refused, kByCommand},
    {"logits_processors", kAll, "", refused, kByCommand},
    {"lora", kAll, "", refused, kByCommand},
    {"lora_path", kAll, "", refused, kByCommand},
    {"session_params", kAll, "", refused, kKeepsNone},
    {"thinking_token_budget", kAll, "", refused,
     "this server does not end thoughts: use reasoning_effort, or max_tokens"},
    {"separate_reasoning", kAll, "", refused,
     "this server takes that only when it starts: --reasoning-parser none", "true"},
    {"stream_reasoning", kAll, "", refused, "this server always streams thoughts", "true"},
    {"skip_special_tokens", kResponses, "", refused, kHidden, "true"},
    {"include_stop_str_in_output", kAll, "", refused,
     "this server ends the text before a stop string", "false"},
    {"no_stop_trim", kAll, "", refused, "this server ends the text before a stop string", "false"},
    {"n_probs", kAll, "", refused, "use logprobs", "0"},
    {"return_hidden_states", kAll, "", refused, kTextAlone, "false"},
    {"t_max_predict_ms", kAll, "", refused, "use the header X-Request-Timeout-Ms", "-1, 0"},
    {"echo", kResponses, "", refused, kChatHasIt, "false"},
    {"prompt_logprobs", kResponses, "", refused,
     "use it with /v1/completions or /v1/chat/completions"},
    {"best_of", kTalks, "", refused, "this server chooses among answers only for /v1/completions",
     "1"},
    {"n", kResponses, "", refused, "a response has one answer: use /v1/chat/completions", "1"},
    {"logprobs", kResponses, "", refused, "use include, with message.output_text.logprobs",
     "false"},
    {"logprob_token_ids", kResponses, "", refused, kChatHasIt},
    {"return_token_ids", kResponses, "", refused, kChatHasIt, "false"},
    {"return_tokens_as_token_ids", kResponses, "", refused, kChatHasIt, "false"},
    {"previous_response_id", kResponses, "", refused, kKeepsNone},
    {"conversation", kResponses, "", refused, "this server keeps no conversations: send all input"},
    {"background", kResponses, "", refused, kKeepsNone, "false"},
    {"context_management", kResponses, "", refused,
     "nothing is truncated: send only what the model should read"},
    {"modalities", kChat, "", refused, kTextAlone, R"(["text"])"},
    {"audio", kChat, "", refused, kTextAlone},
    {"verbosity", kChat, "", refused, "say in a message how long the answer should be",
     "\"medium\""},
    {"web_search_options", kChat, "", refused, "this server has no web search"},
    // ---- Harmless ----
    {"user", kAll, "", harmless, kNotUsed},
    {"store", kAll, "", harmless, "Nothing is stored"},
    {"metadata", kAll, "", harmless, "Accepted and ignored, except that a response repeats it"},
    {"service_tier", kAll, "", harmless, kNotUsed},
    {"safety_identifier", kAll, "", harmless, kNotUsed},
    {"prompt_cache_key", kAll, "", harmless, "Prompts with the same beginning share it anyway"},
    {"prompt_cache_retention", kAll, "", harmless, "A prompt stays cached while there is room"},
    {"cache_prompt", kAll, "", harmless, "Bits are the same with a cached prompt"},
    {"prediction", kChat, "", harmless, "It would change the speed, not the answer"},
    {"request_id", kAll, "", harmless, "The header X-Request-Id names a request"},
    {"rid", kAll, "", harmless, "The header X-Request-Id names a request"},
    {"truncation", kResponses, "", harmless,
     "Nothing is truncated: a prompt that is too long is refused"},
    {"max_tool_calls", kResponses, "", harmless,
     "It limits calls of hosted tools; these tools are refused"},
    {"length_penalty", kAll, "", harmless, "It belongs to use_beam_search, which is refused"},
    {"early_stopping", kAll, "", harmless, "It belongs to use_beam_search, which is refused"},
    {"mirostat_tau", kAll, "", harmless, "It belongs to mirostat, which is refused"},
    {"mirostat_eta", kAll, "", harmless, "It belongs to mirostat, which is refused"},
    {"dynatemp_exponent", kAll, "", harmless, "It belongs to dynatemp_range, which is refused"},
    {"xtc_threshold", kAll, "", harmless, "It belongs to xtc_probability, which is refused"},
    {"dry_base", kAll, "", harmless, "It belongs to dry_multiplier, which is refused"},
    {"dry_allowed_length", kAll, "", harmless, "It belongs to dry_multiplier, which is refused"},
    {"dry_penalty_last_n", kAll, "", harmless, "It belongs to dry_multiplier, which is refused"},
    {"dry_sequence_breakers", kAll, "", harmless, "It belongs to dry_multiplier, which is refused"},
    {"guided_decoding_backend", kAll, "", harmless, "It belongs to guided_json, which is refused"},
    {"guided_whitespace_pattern", kAll, "", harmless,
     "It belongs to guided_json, which is refused"},
    {"spaces_between_special_tokens", kAll, "", harmless, "Special tokens are not shown"},
    {"n_keep", kAll, "", harmless, "Nothing is truncated: a prompt that is too long is refused"},
    {"n_discard", kAll, "", harmless, "Nothing is truncated: a prompt that is too long is refused"},
    {"id_slot", kAll, "", harmless, "Requests cannot choose a slot"},
    {"mm_processor_kwargs", kAll | kTokenize, "", harmless, "Images, audio and files are refused"},
    {"media_io_kwargs", kAll, "", harmless, "Images, audio and files are refused"},
};

constexpr Endpoint kEndpoints[] = {kCompletions, kChat, kResponses, kTokenize};

// The rows of one kind. `last` makes a row's last cells, whose columns `head` names.
std::string table_of(FieldKind kind, const std::string& head, std::string (*last)(const Field&)) {
  std::string table = "| JSON | completions | chat | responses | tokenize | " + head + " |\n|";
  for (int64_t columns = 6 + std::ranges::count(head, '|'); columns > 0; --columns) {
    table += " --- |";
  }
  for (const Field& field : kFields) {
    if (kind_of(field) != kind) continue;
    table += fmt::format("\n| `{}` |", field.name);
    for (const Endpoint endpoint : kEndpoints) {
      table += (field.endpoints & endpoint) != 0 ? " yes |" : "  |";
    }
    table += fmt::format(" {} |", last(field));
  }
  return table + "\n";
}

std::string in_code(const char* text) { return *text == '\0' ? "" : fmt::format("`{}`", text); }

}  // namespace

FieldKind kind_of(const Field& field) {
  if (field.read == refused) return FieldKind::kRefused;
  return field.read == harmless ? FieldKind::kHarmless : FieldKind::kServed;
}

std::span<const Field> fields() { return kFields; }

std::string served_fields_table() {
  return table_of(FieldKind::kServed, "gRPC | note", [](const Field& field) {
    return fmt::format("{} | {}", in_code(field.grpc), field.note);
  });
}

std::string refused_fields_table() {
  return table_of(FieldKind::kRefused, "taken | else 400", [](const Field& field) {
    return fmt::format("{} | {}", in_code(field.neutral), field.note);
  });
}

std::string harmless_fields_table() {
  return table_of(FieldKind::kHarmless, "why",
                  [](const Field& field) { return std::string(field.note); });
}

}  // namespace lockstep::openai
