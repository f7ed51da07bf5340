// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/reference.h"

#include <limits>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kTokens[] = "tokens";

std::string part_that_counts(std::string_view name) {
  constexpr std::string_view kWrapper = "language_model.";
  std::string result(name);
  for (size_t at = 0; (at = result.find(kWrapper, at)) != std::string::npos;) {
    result.erase(at, kWrapper.size());
  }
  for (const std::string_view outer : {"model.", "transformer.", "backbone."}) {
    if (result.starts_with(outer)) return result.substr(outer.size());
  }
  return result;
}

}  // namespace

absl::StatusOr<Reference> Reference::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(File file, File::open(path));
  ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors, read_safetensors_header(file));
  Reference reference(std::move(file));
  bool prompt = false;
  for (TensorInfo& tensor : tensors) {
    if (tensor.name == kTokens) {
      RETURN_IF_ERROR(reference.read_tokens(tensor));
      prompt = true;
    } else if (tensor.dtype == DType::kF32) {
      reference.tensors_[part_that_counts(tensor.name)] = std::move(tensor);
    } else {
      return invalid_argument("{}: tensor {}: must be F32, found {}", path.string(),
                              printable(tensor.name), tensor.dtype_name);
    }
  }
  if (prompt) return reference;
  return invalid_argument("{}: must have a tensor \"tokens\" with the prompt, found none",
                          path.string());
}

absl::Status Reference::read_tokens(const TensorInfo& tensor) {
  if (tensor.dtype_name != "I64" || tensor.shape.size() != 1 || tensor.cols < 1) {
    return invalid_argument("{}: tokens: must be I64 [1 or more], found {} {}",
                            file_.path().string(), tensor.dtype_name, shape_text(tensor.shape));
  }
  std::vector<int64_t> ids(static_cast<size_t>(tensor.cols));
  RETURN_IF_ERROR(file_.read_at(tensor.begin, tensor.end - tensor.begin, ids.data()));
  for (const int64_t id : ids) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return invalid_argument("{}: tokens: must be ids of 0 or more, found {}",
                              file_.path().string(), id);
    }
    tokens_.push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

const TensorInfo* Reference::find(std::string_view name) const {
  const auto found = tensors_.find(part_that_counts(name));
  return found == tensors_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::vector<float>> Reference::read(const TensorInfo& tensor) const {
  std::vector<float> values(static_cast<size_t>(tensor.rows * tensor.cols));
  RETURN_IF_ERROR(file_.read_at(tensor.begin, tensor.end - tensor.begin, values.data()));
  return values;
}

}  // namespace lockstep
