// SPDX-License-Identifier: Apache-2.0
// `lockstep tokenize`: text to ids and back, without a model's weights.
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/model/model_folder.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "tools/commands/command.h"
#include "tools/commands/text/bad_lines.h"

namespace lockstep {
namespace {

struct TokenizeFlags {
  std::string path;
  std::string text;
  bool jsonl = false;
  bool add_special = false;
  bool no_parse_special = false;
  bool keep_special = false;
};

// A folder needs no config.json here.
absl::StatusOr<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = path;
  if (!std::filesystem::is_directory(folder, error)) {
    if (std::filesystem::exists(folder, error)) {
      return invalid_argument("{} is a file: name the folder that holds tokenizer.json", path);
    }
    ASSIGN_OR_RETURN(folder, find_model_folder(path));
  }
  if (!std::filesystem::exists(folder / "tokenizer.json", error)) {
    return invalid_argument("{} {}", folder.string(), missing_tokenizer(folder));
  }
  return Tokenizer::load(folder);
}

absl::Status print_line(const TokenizeFlags& flags, const Tokenizer& tokenizer,
                        const std::string& text) {
  const EncodeOptions options{.add_special = flags.add_special,
                              .parse_special = !flags.no_parse_special};
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.encode(text, options));
  const nlohmann::ordered_json line = {
      {"ids", ids}, {"text", tokenizer.decode(ids, /*skip_special=*/!flags.keep_special)}};
  fmt::print("{}\n", line.dump());
  return absl::OkStatus();
}

absl::Status answer_line(const TokenizeFlags& flags, const Tokenizer& tokenizer,
                         const std::string& line) {
  ASSIGN_OR_RETURN(const nlohmann::json text, parse_json(line, "the line"));
  if (!text.is_string()) {
    return invalid_argument("must be a JSON string, found {}", text.type_name());
  }
  return print_line(flags, tokenizer, text.get<std::string>());
}

absl::Status tokenize(const TokenizeFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, open_tokenizer(flags.path));
  if (!flags.jsonl) {
    std::string text = flags.text;
    if (text.empty()) text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return print_line(flags, *tokenizer, text);
  }
  BadLines bad("standard input");
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    if (line.empty()) continue;
    const absl::Status status = answer_line(flags, *tokenizer, line);
    if (!status.ok()) bad.print(number, status);
  }
  return bad.status();
}

}  // namespace

std::shared_ptr<Command> add_tokenize(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<TokenizeFlags>();
  command->app = parent.add_subcommand("tokenize",
                                       "Prints the token ids of a text, and the text that these "
                                       "ids decode to, as a JSON object on one line.");
  add_flags(*command->app,
            {{"MODEL", &flags->path, "A folder with tokenizer.json (default: the demo model)",
              FlagValues{.form = "FOLDER"}},
             {"--text", &flags->text, "The text (default: all of standard input)"},
             {"--jsonl", &flags->jsonl,
              "Standard input has one JSON string per line; each gets one line of output"},
             {"--add-special", &flags->add_special, "Add the begin and end tokens of prompts"},
             {"--no-parse-special", &flags->no_parse_special,
              "Special tokens in the text, such as </s>, stay text (default: they become tokens)"},
             {"--keep-special", &flags->keep_special,
              "Show special tokens in the decoded text (default: omitted)"}});
  command->run = [flags](Interrupt&) { return tokenize(*flags); };
  return command;
}

}  // namespace lockstep
