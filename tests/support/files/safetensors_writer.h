// SPDX-License-Identifier: Apache-2.0
// Writes safetensors files for tests: whole checkpoints from maps of floats, or arbitrary bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/numbers/float16.h"
#include "checkpoint/checkpoint_writer.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {

struct TestTensor {
  std::string dtype = "F32";  // Or BF16, F16 (values are rounded), I64.
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using TestTensors = std::map<std::string, TestTensor>;

inline std::string test_tensor_bytes(const TestTensor& tensor) {
  std::string bytes;
  const auto append = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const float value : tensor.values) {
    if (tensor.dtype == "F32") append(value);
    if (tensor.dtype == "BF16") append(float_to_bf16(value));
    if (tensor.dtype == "F16") append(float_to_f16(value));
    if (tensor.dtype == "I64") append(static_cast<int64_t>(value));
  }
  return bytes;
}

// The bytes of a file: the header's length, the header and the data. The header may be wrong.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

inline std::string safetensors_bytes(const TestTensors& tensors) {
  std::vector<TensorSpec> specs;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, tensor.dtype, tensor.shape});
    data += test_tensor_bytes(tensor);
  }
  return safetensors_header(specs) + data;
}

inline void write_test_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.flush()) << path;
}

inline void write_safetensors(const std::filesystem::path& path, const TestTensors& tensors) {
  write_test_file(path, safetensors_bytes(tensors));
}

// Writes folder/model-00001-of-0000N.safetensors ... and model.safetensors.index.json.
inline void write_shards(const std::filesystem::path& folder,
                         const std::vector<TestTensors>& shards) {
  nlohmann::json map = nlohmann::json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    write_safetensors(folder / name, shards[i]);
    for (const auto& [tensor, unused] : shards[i]) map[tensor] = name;
  }
  write_test_file(folder / "model.safetensors.index.json",
                  nlohmann::json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}}.dump());
}

}  // namespace lockstep
