// SPDX-License-Identifier: Apache-2.0
#include "tests/tidy/texts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace lockstep::testing {
namespace {

constexpr char kMask = '~';
constexpr size_t kNone = std::string::npos;

// Masks text from one quote to the next in a paragraph; a quote without a partner stays.
void mask(char quote, std::string* words) {
  for (size_t begin = 0; (begin = words->find(quote, begin)) != std::string::npos; ++begin) {
    const size_t end = words->find(quote, begin + 1);
    if (end == std::string::npos || words->find("\n\n", begin) < end) continue;
    for (; begin <= end; ++begin) {
      if ((*words)[begin] != '\n') (*words)[begin] = kMask;
    }
    begin = end;
  }
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == std::string_view::npos;
}

// Whether the line begins a list's item: "- ", "* " or "1. ".
bool is_item(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of("0123456789"), text.size());
  return begin == 0 ? text.starts_with("- ") || text.starts_with("* ")
                    : text.substr(begin).starts_with(". ");
}

class Reader {
 public:
  explicit Reader(const SourceFile& file) : file_(file) {}

  std::vector<Text> read() {
    const bool scripts = file_.has_extension({".py", ".sh", ".cmake", ".yaml", ".yml"}) ||
                         file_.path.ends_with("CMakeLists.txt");
    const bool pages = file_.has_extension({".md"});
    for (at_ = 0; at_ < file_.lines.size(); ++at_) {
      const std::string& line = file_.lines[at_];
      if (pages) read_page(line);
      if (scripts) read_script(line);
      if (file_.is_cpp() || file_.has_extension({".proto"})) read_cpp(line);
    }
    std::erase_if(texts_, [](const Text& text) {  // A name or a key.
      return text.kind == Text::Kind::kString && text.words.find(' ') == kNone;
    });
    for (Text& text : texts_) {
      mask('`', &text.words);
      if (text.kind != Text::Kind::kString) mask('"', &text.words);
    }
    return std::move(texts_);
  }

 private:
  // Continues the last text of this kind if it ended on this line or on the line above; else begins
  // a new text.
  void add(Text::Kind kind, std::string_view words, bool begins) {
    size_t& last = last_[static_cast<size_t>(kind)];
    if (!begins && last < texts_.size()) {
      std::string& before = texts_[last].words;
      const auto lines = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
      const size_t next = texts_[last].line + lines;  // From 0.
      if (next == at_) before += '\n';
      if (next == at_ || next == at_ + 1) {
        before += words;
        return;
      }
    }
    last = texts_.size();
    texts_.push_back({.kind = kind, .line = at_ + 1, .words = std::string(words)});
  }

  // A comment after code begins a text; a comment below it in the same column continues it.
  void add_comment(std::string_view line, size_t column, size_t mark, bool code) {
    add(Text::Kind::kComment, trimmed(line.substr(column + mark)), code || column != column_);
    column_ = column;
  }

  void read_page(std::string_view line) {
    const std::string_view text = trimmed(line);
    if (text.starts_with("```")) inside_ = !inside_;
    if (inside_ || text.starts_with("```") || text.starts_with(">") || text.empty() ||
        line.starts_with("    ")) {
      return;
    }
    if (text == "| not | but |") words_ = true;
    words_ = words_ && text.starts_with("|");
    if (words_) return;  // The table has the words that texts must not have.
    const bool is_cell = text.starts_with("|") || text.starts_with("#");
    add(is_cell ? Text::Kind::kCell : Text::Kind::kParagraph, text, is_cell || is_item(text));
  }

  // A `#` after an odd number of quotes is inside a string, and begins no comment.
  void read_script(std::string_view line) {
    if (file_.has_extension({".py"}) && read_docstring(line)) return;
    for (size_t at = 0; (at = line.find('#', at)) != std::string_view::npos; ++at) {
      const std::string_view before = line.substr(0, at);
      const bool quoted = std::count(before.begin(), before.end(), '"') % 2 != 0 ||
                          std::count(before.begin(), before.end(), '\'') % 2 != 0;
      if (quoted || !(at == 0 || before.back() == ' ')) continue;
      add_comment(line, at, 1, !is_blank(before));
      return;
    }
  }

  // True if the line is in a string of three quotes. If the string is assigned or passed, it is
  // data; else it is a docstring.
  bool read_docstring(std::string_view line) {
    const size_t mark = line.find("\"\"\"");
    if (!inside_ && mark == std::string_view::npos) return false;
    const bool begins = !inside_;
    if (begins) documents_ = is_blank(line.substr(0, mark));
    std::string_view text = trimmed(begins ? line.substr(mark + 3) : line);
    const size_t end = text.find("\"\"\"");
    inside_ = end == std::string_view::npos;
    if (documents_) add(Text::Kind::kComment, text.substr(0, end), begins);
    return true;
  }

  void read_cpp(std::string_view line) {
    bool code = false;
    for (size_t i = 0; i < line.size() && !line.starts_with("#include"); ++i) {
      if (inside_ || line.substr(i).starts_with("R\"")) {  // A raw string.
        if (!inside_) raw_end_ = ")" + std::string(line.substr(i + 2, line.find('(', i) - i - 2));
        const size_t end = line.find(raw_end_ + "\"", i);
        inside_ = end == std::string_view::npos;
        if (inside_) return;
        i = end + raw_end_.size();
        joins_ = false;
      } else if (line.substr(i).starts_with("//")) {
        add_comment(line, i, 2, code);
        return;
      } else if (line[i] == '"') {
        i = read_string(line, i + 1);
      } else if (line[i] == '\'' && (i == 0 || std::isalnum(line[i - 1]) == 0)) {
        i = std::min(line.find('\'', line[i + 1] == '\\' ? i + 3 : i + 2), line.size());
      } else if (line[i] != ' ') {
        joins_ = false;
      }
      code = code || (i < line.size() && line[i] != ' ');
    }
  }

  // Returns the place of the closing quote.
  size_t read_string(std::string_view line, size_t begin) {
    std::string words;
    size_t i = begin;
    for (; i < line.size() && line[i] != '"'; ++i) {
      words += line[i] == '\\' ? ' ' : line[i];
      if (line[i] == '\\') ++i;
    }
    add(Text::Kind::kString, words, !joins_);
    joins_ = true;
    return i;
  }

  const SourceFile& file_;
  std::vector<Text> texts_;
  std::array<size_t, 4> last_ = {kNone, kNone, kNone, kNone};  // The last text of each kind.
  size_t column_ = 0;                                          // The column of the last comment.
  size_t at_ = 0;                                              // The line's number, from 0.
  bool inside_ = false;     // The line is inside a page's code, or a string of several lines.
  bool documents_ = false;  // This string is a docstring.
  bool words_ = false;      // The line is in the table of words.
  bool joins_ = false;      // The last token is a string.
  std::string raw_end_;
};

}  // namespace

std::vector<Text> texts_of(const SourceFile& file) { return Reader(file).read(); }

}  // namespace lockstep::testing
