// SPDX-License-Identifier: Apache-2.0
// These readers trust files that we generated ourselves.
#include "tests/support/goldens/golden_case.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/numbers/float16.h"
#include "tests/support/files/test_data.h"

namespace lockstep {
namespace {

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  LOCKSTEP_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

float element(const char* at, const std::string& dtype) {
  float wide = 0;
  uint16_t half = 0;
  if (dtype == "F32") {
    std::memcpy(&wide, at, 4);
    return wide;
  }
  LOCKSTEP_CHECK(dtype == "BF16" || dtype == "F16");
  std::memcpy(&half, at, 2);
  return dtype == "BF16" ? bf16_to_float(half) : f16_to_float(half);
}

}  // namespace

naive::Tensors load_safetensors(const std::filesystem::path& path) {
  const std::string bytes = read_all(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  naive::Tensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    naive::Tensor& tensor = tensors[name];
    tensor.shape = entry["shape"].get<std::vector<int64_t>>();
    const std::string dtype = entry["dtype"];
    const size_t width = dtype == "F32" ? 4 : 2;
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    for (size_t at = begin; at < end; at += width) {
      tensor.data.push_back(element(bytes.data() + 8 + header_bytes + at, dtype));
    }
  }
  return tensors;
}

GoldenCase load_golden_case(const std::string& name) {
  GoldenCase result;
  result.folder = test_data(name);
  result.tensors = load_safetensors(result.folder / "model.safetensors");
  const nlohmann::json golden = nlohmann::json::parse(read_all(result.folder / "golden.json"));
  for (const nlohmann::json& prompt : golden["prompts"]) {
    result.prompts.push_back({prompt["ids"], prompt["greedy"], prompt["last_logits"]});
  }
  return result;
}

}  // namespace lockstep
