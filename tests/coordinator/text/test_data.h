// SPDX-License-Identifier: Apache-2.0
// The tokenizers that the tests of text load, and small ones that they make.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/source_dir.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "gtest/gtest.h"
#include "tests/support/files/test_data.h"

namespace lockstep {

inline std::filesystem::path own_tokenizer(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests" / "data" / "tokenizers" / name;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_text(path), nullptr, false);
}

// The tokenizer, or null after a failure of the test.
inline std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  auto loaded = Tokenizer::load(folder);
  if (loaded.ok()) return *std::move(loaded);
  ADD_FAILURE() << loaded.status();
  return nullptr;
}

// The smallest tokenizer.json with these parts, each JSON.
inline std::string spec_with(const std::string& part, const std::string& model_part = "") {
  return R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3,"<unk>":4},"merges":["a b"])" +
         (model_part.empty() ? "" : "," + model_part) + "}" + (part.empty() ? "" : "," + part) +
         "}";
}

}  // namespace lockstep
