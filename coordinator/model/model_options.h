// SPDX-License-Identifier: Apache-2.0
// Which model is opened and how its weights, its contexts and its templates are read; and the flags
// that say it.
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

// Whether a model can be used without its weights: to look at, not to run.
enum class WeightFiles { kNeeded, kOptional };

// Values for requests that do not say them, over those of the model's files.
struct RequestDefaults {
  std::string sampling;               // A JSON object, see add_sampling_defaults(); "": none.
  std::optional<int32_t> max_tokens;  // Of every endpoint.
  std::string template_variables;     // A JSON object for the chat template; "": none.
};

struct ModelOptions {
  std::string path;  // A folder, `org/name` in the Hugging Face cache, or "": the demo model.
  std::string dtype = "auto";              // auto, float32, bfloat16
  std::string quantize;                    // A scheme (sharding/scheme.h); "": the checkpoint's.
  std::string kv_dtype = "auto";           // auto, float32, bfloat16, int8
  std::optional<uint64_t> random_weights;  // Seed; then config.json is all that is read.
  WeightFiles weight_files = WeightFiles::kNeeded;
  std::vector<std::string> ignore_config;
  std::string chat_template;  // A file, or a known template's name; "": the folder's.
  // What a request may set beside ChatTemplate::kThinkingVariables.
  std::vector<std::string> template_variables;
  bool takes_prompt_embeds = false;  // Requests may bring rows of embeddings.
  // "file": embeddings are kept as the checkpoint has them, so that workers can leave them there.
  std::string embedding = "memory";
  Strategy strategy = Strategy::kGather;
  std::vector<std::string> names;  // The first is in answers; none: the folder's.
  RequestDefaults defaults;
  int64_t max_context = 0;  // 0: the config's.
  int64_t max_rows = 512;   // Tokens of a step: a prefill chunk and one for each running sequence.
  int64_t max_sequences = 256;

  // Every command that opens a model has these.
  std::vector<Flag> flags();
  // Commands that render conversations have these.
  std::vector<Flag> chat_flags();
  // Defaults of requests, and what a request may bring.
  std::vector<Flag> serve_flags();
};

inline std::vector<Flag> ModelOptions::flags() {
  return {
      {"MODEL", &path,
       "A folder in Hugging Face layout, or org/name in the local Hugging Face cache; nothing: the "
       "demo model"},
      {"--dtype", &dtype,
       "Type of weights in memory: auto (as stored), float32 (and all arithmetic in float32), "
       "bfloat16"},
      {"--quantize", &quantize,
       "Weights as small integers, rounded as they are loaded: " + scheme_names()},
      {"--kv-dtype", &kv_dtype,
       "Type of keys and values in memory: auto (bfloat16 where weights are, else float32), "
       "float32, bfloat16, int8"},
      {"--embedding", &embedding,
       "The place of the embedding: memory, or file (rows are read from the checkpoint when tokens "
       "need "
       "them, and the file must not change meanwhile). With --quantize, file gives other bits than "
       "memory: the rows are not rounded",
       FlagValues{.words = {"memory", "file"}}},
      {"--random-weights", &random_weights,
       "Draw the weights from this seed: only config.json is read"},
      {"--ignore-config", &ignore_config, "A key of config.json to ignore (repeatable)"},
      {"--max-context", &max_context, "Positions of a sequence (default: the model's)",
       FlagValues{.min = 0}},
  };
}

inline std::vector<Flag> ModelOptions::chat_flags() {
  return {
      {"--chat-template", &chat_template,
       fmt::format("A file with a chat template, or one that is known by name ({}), in place of "
                   "MODEL's",
                   known_template_names())},
      {"--template-vars", &template_variables,
       fmt::format("Names of variables that a request may pass to the chat template, with commas "
                   "between them, beside {}",
                   fmt::join(ChatTemplate::kThinkingVariables, ", ")),
       FlagValues{.has_commas = true}},
  };
}

inline std::vector<Flag> ModelOptions::serve_flags() {
  return {
      {"--served-model-name", &names,
       "What clients call the model (default: as its folder is called); repeatable, the first is "
       "in answers",
       FlagValues{.check = [](const std::string& name) -> std::string {
         const auto plain = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; };
         const bool good = !name.empty() && name.size() <= 256 && std::ranges::all_of(name, plain);
         return good ? "" : "up to 256 printable characters without blanks and quotes";
       }}},
      {"--sampling-defaults", &defaults.sampling,
       "Sampling of requests that do not say it, over the model's generation_config, as JSON: "
       "{\"temperature\": 0.6, \"presence_penalty\": 1}"},
      {"--max-tokens-default", &defaults.max_tokens,
       "Tokens of answers to requests that do not say a number",
       FlagValues{.min = 1, .max = 1 << 30}},
      {"--chat-template-kwargs", &defaults.template_variables,
       "Variables of the chat template that requests need not set, as JSON: "
       "{\"enable_thinking\": false}"},
      {"--prompt-embeds", &takes_prompt_embeds,
       "Take rows of embeddings in prompts (prompt_embeds of gRPC's Generate)"},
  };
}

}  // namespace lockstep
