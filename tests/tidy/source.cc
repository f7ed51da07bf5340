// SPDX-License-Identifier: Apache-2.0
#include "tests/tidy/source.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {
    "base", "proto", "checkpoint",  "models", "sharding", "worker",    "tools", "tests",
    "docs", "cmake", "coordinator", "demo",   ".ci",      "operators", "web",   "deploy"};

// Empty if this is not a checkout or there is no git.
std::vector<std::string> paths_by_git(const std::string& top) {
  const std::string command = "git -C '" + top +
                              "' ls-files -z --cached --others --exclude-standard"
                              " 2>/dev/null";
  std::string output;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    char buffer[4096];
    for (size_t count; (count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
      output.append(buffer, count);
    }
    pclose(pipe);
  }
  std::vector<std::string> paths;
  for (size_t begin = 0, end; (end = output.find('\0', begin)) != std::string::npos;
       begin = end + 1) {
    paths.push_back(output.substr(begin, end - begin));
  }
  // If this tree is inside another checkout, which ignores it or has only other files, git's list
  // does not count.
  if (std::find(paths.begin(), paths.end(), "CMakeLists.txt") == paths.end()) paths.clear();
  return paths;
}

std::vector<std::string> paths_by_walk(const std::string& top) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(top)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().filename());
  }
  for (const char* folder : kFolders) {
    if (!fs::is_directory(fs::path(top) / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(top) / folder)) {
      if (entry.is_regular_file()) paths.push_back(fs::relative(entry.path(), top));
    }
  }
  return paths;
}

bool is_data(std::string_view path) {
  for (const char* end : {".json", ".jsonl", ".safetensors", ".pyc", "_pb2.py"}) {
    if (path.ends_with(end)) return true;
  }
  return path.starts_with("tests/data/") || path.starts_with("tests/fuzz/seeds/");
}

bool is_word_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

bool SourceFile::has_extension(std::initializer_list<std::string_view> extensions) const {
  return std::any_of(extensions.begin(), extensions.end(),
                     [this](std::string_view extension) { return path.ends_with(extension); });
}

bool SourceFile::is_code() const {
  if (!lines.empty() && code_of(lines[0]).empty() && lines[0].starts_with("// Made by ")) {
    return false;
  }
  return is_cpp() || path.ends_with("CMakeLists.txt") ||
         has_extension({".py", ".sh", ".cmake", ".proto"});
}

bool SourceFile::is_in(std::string_view folder) const {
  return path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/';
}

SourceFile make_source(std::string path, std::string_view text) {
  SourceFile file{.path = std::move(path), .lines = {}};
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    file.lines.emplace_back(text.substr(begin, end - begin));
  }
  if (begin < text.size()) file.lines.emplace_back(text.substr(begin));
  return file;
}

std::vector<SourceFile> read_tree(const std::string& top) {
  std::vector<std::string> paths = paths_by_git(top);
  if (paths.empty()) paths = paths_by_walk(top);
  std::sort(paths.begin(), paths.end());
  std::vector<SourceFile> files;
  for (std::string& path : paths) {
    std::ifstream stream(fs::path(top) / path, std::ios::binary);
    if (is_data(path) || !stream) continue;  // git still lists a file that was just removed.
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    files.push_back(make_source(std::move(path), text));
  }
  return files;
}

std::string included_name(std::string_view line) {
  if (!line.starts_with("#include ")) return "";
  line.remove_prefix(9);
  const size_t end = line.find_last_of("\">");
  if (end == std::string_view::npos || end == 0) return "";
  return std::string(line.substr(1, end - 1));
}

std::string code_of(std::string_view line) {
  std::string code;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line.substr(i).starts_with("//")) break;
    if (line[i] != '"') {
      code += line[i];
      continue;
    }
    if (i > 0 && line[i - 1] == '\'') continue;  // The character '"'.
    for (++i; i < line.size() && line[i] != '"'; ++i) {
      if (line[i] == '\\') ++i;
    }
    code += "\"\"";
  }
  return code;
}

bool contains_word(std::string_view text, std::string_view word, bool whole) {
  for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) {
    const size_t end = at + word.size();
    const bool open_left = at == 0 || !is_word_letter(text[at - 1]);
    const bool open_right = !whole || end == text.size() || !is_word_letter(text[end]);
    if (open_left && open_right) return true;
  }
  return false;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace lockstep::testing
