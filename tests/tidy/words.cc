// SPDX-License-Identifier: Apache-2.0
#include "tests/tidy/words.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "tests/tidy/texts.h"

namespace lockstep::testing {
namespace {

struct Token {
  std::string word;  // A word in small letters, or one other character; '\n' ends a paragraph.
  bool is_word = false;
  bool is_code = false;  // The word is part of a call, a name or a path.
  bool opens = false;
  size_t line = 0;
};

bool is_in(std::string_view all, char c) { return all.find(c) != std::string_view::npos; }

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || is_in("_'-~", c);
}

// Splits a text. The first word of a text, of a paragraph and of an item is an opening. The first
// word of a later sentence is an opening only if it has a capital letter: not every full stop ends
// a sentence.
std::vector<Token> tokens_of(const Text& text) {
  std::vector<Token> tokens;
  const std::string& words = text.words + '\n';
  size_t line = text.line;
  bool paragraph = true;
  bool sentence = false;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string_view rest = std::string_view(words).substr(i);
    const char before = i == 0 ? '\n' : words[i - 1];
    if (rest[0] == '\n') ++line;
    if (rest.starts_with("\n\n") || (before == '\n' && rest.starts_with("- "))) {
      tokens.push_back({.word = "\n", .line = line});
      paragraph = true;
    } else if (is_letter(rest[0])) {
      size_t end = i;
      while (is_letter(words[end])) ++end;
      Token token{.word = words.substr(i, end - i), .is_word = true, .line = line};
      token.is_code = is_in(".:/\\<$", before) || words[end] == '(' ||
                      (is_in("./", words[end]) && is_letter(words[end + 1]));
      token.opens = paragraph || (sentence && std::isupper(rest[0]) != 0);
      for (char& c : token.word) c = static_cast<char>(std::tolower(c));
      tokens.push_back(std::move(token));
      paragraph = sentence = false;
      i = end - 1;
    } else if (rest[0] != ' ' && rest[0] != '\n') {
      tokens.push_back({.word = std::string(1, rest[0]), .line = line});
      sentence = is_in(".?!", rest[0]) && std::isspace(rest[1]) != 0;
    }
  }
  return tokens;
}

bool is_question(const std::vector<Token>& tokens, size_t at) {
  for (; at < tokens.size(); ++at) {
    const std::string& word = tokens[at].word;
    if (word == "\n" || word == "." || word == "!") return false;
    if (word == "?") return true;
  }
  return false;
}

bool matches(const std::vector<Token>& tokens, size_t at, const Words& phrase) {
  if (at + phrase.size() > tokens.size()) return false;
  for (size_t i = 0; i < phrase.size(); ++i) {
    if (tokens[at + i].is_code || tokens[at + i].word != phrase[i]) return false;
  }
  return true;
}

const WordList::Row* match(const std::map<std::string, std::vector<WordList::Row>>& rows,
                           const std::vector<Token>& tokens, size_t at) {
  const auto found = rows.find(tokens[at].word);
  if (found == rows.end()) return nullptr;
  for (const WordList::Row& row : found->second) {
    if (matches(tokens, at, row.phrase)) return &row;
  }
  return nullptr;
}

std::string joined(const Words& phrase) {
  std::string all;
  for (const std::string& word : phrase) all += (all.empty() ? "" : " ") + word;
  return all;
}

}  // namespace

WordList read_word_list(const SourceFile& page) {
  constexpr std::string_view kOpening = "opening:";
  WordList list;
  bool inside = false;
  for (const std::string& line : page.lines) {
    if (!inside || !line.starts_with("| ")) {
      inside = line == "| not | but |";
      continue;
    }
    const size_t middle = line.find(" | ");
    if (middle == std::string::npos || line.starts_with("| --")) continue;
    std::string left(trimmed(std::string_view(line).substr(2, middle - 2)));
    const bool opening = left.starts_with(kOpening);
    if (opening) left.erase(0, kOpening.size());
    const std::string instead(
        trimmed(std::string_view(line).substr(middle + 3, line.size() - middle - 5)));
    WordList::Row row{.phrase = {}, .instead = instead};
    left += ',';
    for (const Token& token : tokens_of({.kind = Text::Kind::kCell, .line = 0, .words = left})) {
      if (token.is_word) {
        row.phrase.push_back(token.word);
      } else if (token.word == "," && !row.phrase.empty()) {
        (opening ? list.openings : list.phrases)[row.phrase[0]].push_back(row);
        row.phrase.clear();
      }
    }
  }
  return list;
}

std::vector<WordFinding> find_words(const SourceFile& file, const WordList& list) {
  std::vector<WordFinding> findings;
  for (const Text& text : texts_of(file)) {
    const bool prose = text.kind == Text::Kind::kComment || text.kind == Text::Kind::kParagraph;
    const std::vector<Token> tokens = tokens_of(text);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (const WordList::Row* row = match(list.phrases, tokens, i)) {
        findings.push_back({tokens[i].line, joined(row->phrase), row->instead});
      }
      if (!prose || !tokens[i].opens || is_question(tokens, i)) continue;
      if (const WordList::Row* row = match(list.openings, tokens, i)) {
        findings.push_back({tokens[i].line, "opening: " + joined(row->phrase), row->instead});
      }
    }
  }
  return findings;
}

}  // namespace lockstep::testing
