// SPDX-License-Identifier: Apache-2.0
// Makes every check that Trail of Bits' audit of the format asks for, and refuses the attacks that
// were published after it.
#include "checkpoint/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "base/json.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read as they are stored");

constexpr int64_t kLengthBytes = 8;

struct StoredType {
  std::string_view name;
  int64_t bits;
  DType dtype;
};

// Every type of the format. A file may contain kNone types, but they cannot be weights.
constexpr std::array kStoredTypes = {
    StoredType{"F32", 32, DType::kF32},         StoredType{"BF16", 16, DType::kBF16},
    StoredType{"F16", 16, DType::kF16},         StoredType{"F64", 64, DType::kNone},
    StoredType{"I64", 64, DType::kNone},        StoredType{"I32", 32, DType::kNone},
    StoredType{"I16", 16, DType::kNone},        StoredType{"I8", 8, DType::kNone},
    StoredType{"U64", 64, DType::kNone},        StoredType{"U32", 32, DType::kNone},
    StoredType{"U16", 16, DType::kNone},        StoredType{"U8", 8, DType::kNone},
    StoredType{"BOOL", 8, DType::kNone},        StoredType{"C64", 64, DType::kNone},
    StoredType{"F8_E4M3", 8, DType::kNone},     StoredType{"F8_E5M2", 8, DType::kNone},
    StoredType{"F8_E8M0", 8, DType::kNone},     StoredType{"F8_E4M3FNUZ", 8, DType::kNone},
    StoredType{"F8_E5M2FNUZ", 8, DType::kNone}, StoredType{"F6_E2M3", 6, DType::kNone},
    StoredType{"F6_E3M2", 6, DType::kNone},     StoredType{"F4", 4, DType::kNone},
};

// One entry of the header. Its errors name the file and the tensor.
class Entry {
 public:
  Entry(std::string_view what, const std::string& name, const Json& json)
      : what_(what), name_(name), json_(json) {}

  // Fills all of a TensorInfo; the byte range is relative to the end of the header.
  absl::StatusOr<TensorInfo> parse() const {
    TensorInfo info;
    info.name = name_;
    if (!json_.is_object()) return error("must be an object, found {}", describe(json_));
    ASSIGN_OR_RETURN(const StoredType* type, stored_type());
    info.dtype = type->dtype;
    info.dtype_name = type->name;
    ASSIGN_OR_RETURN(info.shape, integers("shape"));
    if (static_cast<int64_t>(info.shape.size()) > kMaxTensorRank) {
      return error("must have at most {} dimensions, found {}", kMaxTensorRank, info.shape.size());
    }
    ASSIGN_OR_RETURN(const int64_t bytes, measure(*type, info));
    ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, integers("data_offsets"));
    if (offsets.size() != 2)
      return error("data_offsets: must be 2 numbers, found {}", offsets.size());
    info.begin = offsets[0];
    info.end = offsets[1];
    if (info.begin > info.end) {
      return error("data_offsets: the end {} is before the begin {}", info.end, info.begin);
    }
    if (info.end - info.begin != bytes) {
      return error("{} {} takes {} bytes, but data_offsets give it {}", type->name,
                   shape_text(info.shape), bytes, info.end - info.begin);
    }
    return info;
  }

 private:
  template <typename... Args>
  absl::Status error(fmt::format_string<Args...> format, Args&&... args) const {
    return failed_precondition("{}: tensor \"{}\": {}", what_, printable(name_),
                               fmt::format(format, std::forward<Args>(args)...));
  }

  absl::StatusOr<const StoredType*> stored_type() const {
    const auto found = json_.find("dtype");
    if (found == json_.end() || !found->is_string()) {
      return error("dtype: must be a string, found {}",
                   found == json_.end() ? "nothing" : describe(*found));
    }
    const auto& name = found->get_ref<const std::string&>();
    for (const StoredType& type : kStoredTypes) {
      if (type.name == name) return &type;
    }
    return error("dtype: \"{}\" is not a type of safetensors (F32, BF16, F16, I64, ...)",
                 printable(name));
  }

  // Refuses floats, 1e3, negative numbers (-0 too) and numbers above int64.
  absl::StatusOr<std::vector<int64_t>> integers(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_array()) {
      return error("{}: must be an array, found {}", key,
                   found == json_.end() ? "nothing" : describe(*found));
    }
    std::vector<int64_t> values;
    values.reserve(found->size());
    for (const Json& item : *found) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > uint64_t{INT64_MAX}) {
        return error("{}: must be non-negative integers, found {}", key, describe(item));
      }
      values.push_back(item.get<int64_t>());
    }
    return values;
  }

  // Fills rows and cols; returns the bytes of the shape.
  absl::StatusOr<int64_t> measure(const StoredType& type, TensorInfo& info) const {
    info.rows = 1;
    info.cols = info.shape.empty() ? 1 : info.shape.back();
    int64_t elements = 1;
    int64_t bits = 0;
    bool overflow = false;
    for (const int64_t size : info.shape) {
      info.rows = elements;  // Finally the product of all sizes but the last.
      overflow |= __builtin_mul_overflow(elements, size, &elements);
    }
    overflow |= __builtin_mul_overflow(elements, type.bits, &bits);
    if (overflow) return error("shape {} overflows 64 bits", shape_text(info.shape));
    if (bits % 8 != 0) {
      return error("{} {} is not a whole number of bytes", type.name, shape_text(info.shape));
    }
    return bits / 8;
  }

  const std::string_view what_;
  const std::string& name_;
  const Json& json_;
};

absl::Status check_metadata(const Json& metadata, std::string_view what) {
  if (!metadata.is_object()) {
    return failed_precondition("{}: __metadata__: must be an object, found {}", what,
                               describe(metadata));
  }
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) {
      return failed_precondition("{}: __metadata__: \"{}\": must be a string, found {}", what,
                                 printable(key), describe(value));
    }
  }
  return absl::OkStatus();
}

// The tensors, in order of position, must follow each other without holes or overlaps and end where
// the file ends. This includes tensors without elements.
absl::Status check_cover(const std::vector<TensorInfo>& tensors, int64_t data_bytes,
                         std::string_view what) {
  int64_t reached = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != reached) {
      return failed_precondition(
          "{}: tensor \"{}\": must begin at {}, where the tensor before it ends, found {}; "
          "the file has {}",
          what, printable(tensor.name), reached, tensor.begin,
          tensor.begin < reached ? "overlapping tensors" : "a hole");
    }
    reached = tensor.end;
  }
  if (reached != data_bytes) {
    return failed_precondition(
        "{}: the tensors take {} bytes, the file has {} after its header; it is {}: fetch it again",
        what, reached, data_bytes, data_bytes < reached ? "cut short" : "too long");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> parse_safetensors_header(std::string_view header,
                                                                 int64_t file_bytes,
                                                                 std::string_view what,
                                                                 const ProgressCallback& alive) {
  const auto header_bytes = static_cast<int64_t>(header.size());
  if (header_bytes > kMaxHeaderBytes || header_bytes > file_bytes - kLengthBytes) {
    return failed_precondition("{}: a header of {} bytes does not fit a file of {}", what,
                               header_bytes, file_bytes);
  }
  if (!header.starts_with('{')) {
    return failed_precondition("{}: must have a header that starts with '{{', found {}", what,
                               header.empty() ? "an empty one" : printable(header.substr(0, 1)));
  }
  // Depth: the map, a tensor, its shape, and one more for unknown keys.
  ASSIGN_OR_RETURN(
      const Json json,
      parse_json(header, what, {.depth = 4, .values = 20 * kMaxTensors, .alive = alive}));
  if (static_cast<int64_t>(json.size()) > kMaxTensors) {
    return failed_precondition("{}: must have at most {} tensors, found {}", what, kMaxTensors,
                               json.size());
  }
  std::vector<TensorInfo> tensors;
  tensors.reserve(json.size());
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      RETURN_IF_ERROR(check_metadata(value, what));
      continue;
    }
    ASSIGN_OR_RETURN(TensorInfo info, Entry(what, name, value).parse());
    tensors.push_back(std::move(info));
  }
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const int64_t data_begin = kLengthBytes + header_bytes;
  RETURN_IF_ERROR(check_cover(tensors, file_bytes - data_begin, what));
  for (TensorInfo& tensor : tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  return tensors;
}

absl::StatusOr<std::vector<TensorInfo>> read_safetensors_header(const File& file,
                                                                const ProgressCallback& alive) {
  const std::string what = file.path().string();
  if (file.bytes() < kLengthBytes) {
    return failed_precondition(
        "{}: must be a safetensors file, found only {} bytes; fetch it again", what, file.bytes());
  }
  uint64_t length = 0;
  RETURN_IF_ERROR(file.read_at(0, kLengthBytes, &length));
  const int64_t longest = std::min(kMaxHeaderBytes, file.bytes() - kLengthBytes);
  if (std::memcmp(&length, "version ", kLengthBytes) == 0) {
    return failed_precondition(
        "{}: it is a Git LFS pointer, not the file: run `git lfs pull` to fetch it", what);
  }
  if (length > static_cast<uint64_t>(longest)) {
    return failed_precondition(
        "{}: must have a header of at most {} bytes, found a length of {}; the file has {} bytes: "
        "is it a complete safetensors file?",
        what, longest, length, file.bytes());
  }
  std::string header(length, '\0');
  RETURN_IF_ERROR(file.read_at(kLengthBytes, static_cast<int64_t>(length), header.data()));
  RETURN_IF_ERROR(file.check_size());
  return parse_safetensors_header(header, file.bytes(), what, alive);
}

int64_t stored_bits(std::string_view dtype_name) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == dtype_name) return type.bits;
  }
  return 0;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace lockstep
