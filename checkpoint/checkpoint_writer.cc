// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/system/file.h"
#include "checkpoint/safetensors.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

absl::Status write_bytes(int descriptor, const fs::path& path, int64_t offset, const void* data,
                         int64_t bytes) {
  const int64_t written = write_at(descriptor, offset, data, bytes);
  if (written == bytes) return absl::OkStatus();
  return failed_precondition("{}: could not write {} bytes: {}", path.string(), bytes - written,
                             error_text(errno));
}

absl::StatusOr<int> create_file(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor >= 0) return descriptor;
  return failed_precondition("{}: could not create this file: {}", path.string(),
                             error_text(errno));
}

absl::Status finish_file(int descriptor, const fs::path& path) {
  if (fsync(descriptor) == 0) return absl::OkStatus();
  return failed_precondition("{}: could not write it to the disk: {}", path.string(),
                             error_text(errno));
}

}  // namespace

struct CheckpointWriter::Shard {
  fs::path path;
  int descriptor = -1;
  ~Shard() {
    if (descriptor >= 0) close(descriptor);
  }
};

CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter::~CheckpointWriter() = default;

int64_t stored_bytes(const TensorSpec& tensor) {
  int64_t bits = stored_bits(tensor.dtype);
  LOCKSTEP_CHECK(bits > 0);
  for (const int64_t size : tensor.shape) bits *= size;
  LOCKSTEP_CHECK(bits % 8 == 0);
  return bits / 8;
}

std::string safetensors_header(const std::vector<TensorSpec>& tensors) {
  nlohmann::json json = {{"__metadata__", {{"format", "pt"}}}};
  int64_t end = 0;
  for (const TensorSpec& tensor : tensors) {
    const int64_t begin = end;
    end += stored_bytes(tensor);
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = json.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // Tensors begin at a multiple of 8 bytes.
  const uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

absl::StatusOr<CheckpointWriter> CheckpointWriter::create(const fs::path& folder,
                                                          const std::vector<TensorSpec>& tensors,
                                                          int64_t shard_bytes) {
  std::vector<std::vector<TensorSpec>> files(1);
  CheckpointWriter writer;
  writer.folder_ = folder;
  int64_t filled = 0;
  for (const TensorSpec& tensor : tensors) {
    const int64_t bytes = stored_bytes(tensor);
    if (!files.back().empty() && filled + bytes > shard_bytes) {
      files.emplace_back();
      filled = 0;
    }
    files.back().push_back(tensor);
    writer.places_.push_back({files.size() - 1, filled, filled + bytes});
    writer.names_.push_back(tensor.name);
    filled += bytes;
  }
  std::vector<int64_t> data_begins;
  for (size_t i = 0; i < files.size(); ++i) {
    auto shard = std::make_unique<Shard>();
    shard->path = folder / (files.size() == 1 ? "model.safetensors"
                                              : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                            i + 1, files.size()));
    ASSIGN_OR_RETURN(shard->descriptor, create_file(shard->path));
    const std::string header = safetensors_header(files[i]);
    data_begins.push_back(static_cast<int64_t>(header.size()));
    RETURN_IF_ERROR(
        write_bytes(shard->descriptor, shard->path, 0, header.data(), data_begins.back()));
    writer.shards_.push_back(std::move(shard));
  }
  for (Place& place : writer.places_) {
    place.begin += data_begins[place.shard];
    place.end += data_begins[place.shard];
  }
  return writer;
}

absl::Status CheckpointWriter::write(size_t tensor, int64_t offset, const void* data,
                                     int64_t bytes) {
  const Place& place = places_[tensor];
  LOCKSTEP_CHECK(0 <= offset && 0 <= bytes && offset + bytes <= place.end - place.begin);
  const Shard& shard = *shards_[place.shard];
  return write_bytes(shard.descriptor, shard.path, place.begin + offset, data, bytes);
}

absl::Status CheckpointWriter::finish() {
  for (const auto& shard : shards_) RETURN_IF_ERROR(finish_file(shard->descriptor, shard->path));
  if (shards_.size() == 1) return absl::OkStatus();
  nlohmann::json map = nlohmann::json::object();
  int64_t total = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    map[names_[i]] = shards_[places_[i].shard]->path.filename().string();
    total += places_[i].end - places_[i].begin;
  }
  const std::string text =
      nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(1);
  Shard index{.path = folder_ / "model.safetensors.index.json"};
  ASSIGN_OR_RETURN(index.descriptor, create_file(index.path));
  RETURN_IF_ERROR(
      write_bytes(index.descriptor, index.path, 0, text.data(), static_cast<int64_t>(text.size())));
  return finish_file(index.descriptor, index.path);
}

}  // namespace lockstep
