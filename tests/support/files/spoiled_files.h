// SPDX-License-Identifier: Apache-2.0
// Files in the states in which a reader may find them while they are replaced.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lockstep::testing {

inline std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Replaces the file at once: no reader sees a part of it.
inline void put_content(const std::string& path, const std::string& bytes) {
  std::ofstream(path + ".new") << bytes;
  std::filesystem::rename(path + ".new", path);
}

struct Spoiler {
  const char* name;
  void (*spoil)(const std::string& path);
};

inline constexpr Spoiler kSpoilers[] = {
    {"empty", [](const std::string& path) { put_content(path, ""); }},
    {"gone", [](const std::string& path) { std::filesystem::remove(path); }},
    {"something else", [](const std::string& path) { put_content(path, "no PEM"); }},
    {"half of itself",
     [](const std::string& path) {
       const std::string whole = content_of(path);
       put_content(path, whole.substr(0, whole.size() / 2));
     }},
};

// Spoils a file while this object lives, then restores it at once.
class SpoiledFile {
 public:
  SpoiledFile(const std::string& path, const Spoiler& spoiler)
      : path_(path), bytes_(content_of(path)) {
    spoiler.spoil(path_);
  }
  ~SpoiledFile() { put_content(path_, bytes_); }
  SpoiledFile(const SpoiledFile&) = delete;
  SpoiledFile& operator=(const SpoiledFile&) = delete;

 private:
  const std::string path_;
  const std::string bytes_;
};

}  // namespace lockstep::testing
