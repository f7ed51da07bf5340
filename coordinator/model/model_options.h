// SPDX-License-Identifier: Apache-2.0
// The options of a model: its path, weights, contexts and templates; and their flags.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/flag.h"
#include "coordinator/text/template/chat_template.h"
#include "coordinator/text/template/known_templates.h"
#include "sharding/compile.h"
#include "sharding/scheme.h"

namespace lockstep {

// Whether a model may be opened without its weights, for inspection only.
enum class WeightFiles { kNeeded, kOptional };

// Defaults for requests. They override those of the model's files.
struct RequestDefaults {
  std::string sampling;               // A JSON object, see add_sampling_defaults(); "": none.
  std::optional<int32_t> max_tokens;  // On every endpoint.
  std::string template_variables;     // A JSON object for the chat template; "": none.
};

struct ModelOptions {
  std::string path;  // A folder, `org/name` in the Hugging Face cache, or "": the demo model.
  std::string dtype = "auto";              // auto, float32, bfloat16
  std::string quantize;                    // A scheme (sharding/scheme.h); "": the checkpoint's.
  std::string kv_dtype = "auto";           // auto, float32, bfloat16, int8
  std::optional<uint64_t> random_weights;  // The seed; then the folder needs no weights.
  WeightFiles weight_files = WeightFiles::kNeeded;
  std::vector<std::string> ignore_config;
  std::string chat_template;  // A file, or a known template's name; "": the folder's.
  // Variables that a request may set, in addition to ChatTemplate::kThinkingVariables.
  std::vector<std::string> template_variables;
  bool takes_prompt_embeds = false;  // Requests may have rows of embeddings.
  // "file": embeddings keep the checkpoint's type, so that workers can leave them in the file.
  std::string embedding = "memory";
  Strategy strategy = Strategy::kGather;
  std::vector<std::string> names;  // Answers have the first; empty: the folder's name.
  RequestDefaults defaults;
  int64_t max_context = 0;  // 0: that of config.json.
  int64_t max_rows = 512;   // Tokens per step: a prefill chunk and one for each running sequence.
  int64_t max_sequences = 256;

  // Flags of every command that opens a model.
  std::vector<Flag> flags();
  // Flags of commands that render conversations.
  std::vector<Flag> chat_flags();
  // The flags of `serve`: the model's names, defaults of requests, optional fields of requests.
  std::vector<Flag> serve_flags();
};

inline std::vector<Flag> ModelOptions::flags() {
  return {
      {"MODEL", &path,
       "A folder in Hugging Face layout, or org/name in the local Hugging Face cache (default: the "
       "demo model)",
       FlagValues{.form = "FOLDER"}},
      {"--dtype", &dtype,
       "Type of weights in memory: auto (as stored), float32 (and all arithmetic in float32), "
       "bfloat16",
       FlagValues{.form = "auto|float32|bfloat16"}},
      {"--quantize", &quantize, "Round weights to small integers at load: " + scheme_names(),
       FlagValues{.form = scheme_names("|")}},
      {"--kv-dtype", &kv_dtype,
       "Type of keys and values in memory: auto (bfloat16 if the weights are bfloat16, else "
       "float32), float32, "
       "bfloat16, int8",
       FlagValues{.form = "auto|float32|bfloat16|int8"}},
      {"--embedding", &embedding,
       "The place of the embedding: memory, or file (a row is read from the checkpoint when a "
       "token needs it; the checkpoint must not change while it is used). With --quantize, file "
       "gives other bits than memory, because rows in the file are not rounded",
       FlagValues{.words = {"memory", "file"}}},
      {"--random-weights", &random_weights,
       "Draw random weights from this seed; only config.json is needed"},
      {"--ignore-config", &ignore_config, "A key of config.json to ignore (repeatable)"},
      {"--max-context", &max_context, "Max positions of a sequence (default: the model's max)",
       FlagValues{.min = 0}},
  };
}

inline std::vector<Flag> ModelOptions::chat_flags() {
  return {
      {"--chat-template", &chat_template,
       fmt::format("A file with a chat template, or the name of a built-in template ({}), in place "
                   "of MODEL's template",
                   known_template_names()),
       FlagValues{.form = "FILE|" + known_template_names()}},
      {"--template-vars", &template_variables,
       fmt::format("Comma-separated names of variables that a request may pass to the chat "
                   "template, in addition to {}",
                   fmt::join(ChatTemplate::kThinkingVariables, ", ")),
       FlagValues{.has_commas = true}},
  };
}

inline std::vector<Flag> ModelOptions::serve_flags() {
  return {
      {"--served-model-name", &names,
       "The model's name for clients (default: its folder's name). Repeatable: answers have the "
       "first name",
       FlagValues{.check = [](const std::string& name) -> std::string {
         const auto plain = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; };
         const bool good = !name.empty() && name.size() <= 256 && std::ranges::all_of(name, plain);
         return good ? "" : "up to 256 printable characters without blanks and quotes";
       }}},
      {"--sampling-defaults", &defaults.sampling,
       "Default sampling options of requests, as JSON; they override those of "
       "generation_config.json: "
       "{\"temperature\": 0.6, \"presence_penalty\": 1}"},
      {"--max-tokens-default", &defaults.max_tokens, "Default max_tokens of requests",
       FlagValues{.min = 1, .max = 1 << 30}},
      {"--chat-template-kwargs", &defaults.template_variables,
       "Default variables of the chat template, as JSON, for requests that do not set them: "
       "{\"enable_thinking\": false}"},
      {"--prompt-embeds", &takes_prompt_embeds,
       "Accept rows of embeddings in prompts (prompt_embeds of gRPC's Generate)"},
  };
}

}  // namespace lockstep
