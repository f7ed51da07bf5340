// SPDX-License-Identifier: Apache-2.0
// Finds the files of a checkpoint, checks that index and headers agree, and reads rectangles.
#include "checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/numbers/crc32c.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSuffix = ".safetensors";

// Tensor -> shard, from the index.
using WeightMap = std::map<std::string, std::string, std::less<>>;

// A name from the index must not lead out of the folder.
bool is_shard_name(std::string_view name) {
  return name.size() > kSuffix.size() && name.ends_with(kSuffix) && name.find('/') == name.npos &&
         name.find('\\') == name.npos && name.find("..") == name.npos &&
         name.find('\0') == name.npos;
}

absl::StatusOr<WeightMap> read_index(const fs::path& path, const ProgressCallback& alive) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxHeaderBytes));
  ASSIGN_OR_RETURN(
      const Json index,
      parse_json(text, path.string(), {.depth = 16, .values = 20 * kMaxTensors, .alive = alive}));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) {
    return failed_precondition("{}: weight_map: must be an object, found {}", path.string(),
                               map == index.end() ? "nothing" : describe(*map));
  }
  WeightMap shards;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !is_shard_name(file.get_ref<const std::string&>())) {
      return failed_precondition(
          "{}: \"{}\": must be the name of a {} file in this folder, found {}", path.string(),
          printable(name), kSuffix, describe(file));
    }
    shards.emplace(name, file.get<std::string>());
  }
  return shards;
}

// The folder's only *.safetensors file.
absl::StatusOr<fs::path> single_file(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == kSuffix) found.push_back(it->path());
  }
  if (error) {
    return failed_precondition("{}: must be the folder of a checkpoint: {}", folder.string(),
                               error.message());
  }
  if (found.size() != 1) {
    return failed_precondition(
        "{}: must have {}, {} or a single {} file, found {} of the last; {}", folder.string(),
        kSingleName, kIndexName, kSuffix, found.size(),
        found.empty() ? "convert the weights to safetensors, or pass --random-weights SEED"
                      : "add the index, or keep only one");
  }
  return found.front();
}

constexpr int64_t kBufferBytes = 256 << 10;
constexpr int64_t kPageBytes = 4096;
// The max width of a block to be transposed. A narrow block has many rows, so each of its columns
// becomes a long contiguous row.
constexpr int64_t kTransposedCols = 1024;

// Some columns of a matrix in a file, read in blocks of rows that fit the buffer.
struct Strip {
  int64_t row_bytes;
  int64_t width;  // The bytes needed of each row.

  // If the gap between the parts of two rows is less than a page, reading the gap, too, touches no
  // other page and saves calls.
  bool contiguous() const { return row_bytes - width < kPageBytes; }
  int64_t pitch() const { return contiguous() ? row_bytes : width; }  // Memory from row to row.
  int64_t tallest() const { return (kBufferBytes - width) / pitch() + 1; }
};

absl::Status read_rows(const File& file, int64_t offset, int64_t rows, const Strip& strip,
                       std::byte* buffer) {
  if (strip.contiguous()) {
    return file.read_at(offset, (rows - 1) * strip.row_bytes + strip.width, buffer);
  }
  for (int64_t r = 0; r < rows; ++r) {
    RETURN_IF_ERROR(
        file.read_at(offset + r * strip.row_bytes, strip.width, buffer + r * strip.width));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> header_of(const File& file) {
  uint64_t header_bytes = 0;  // The format's first field; checked when the file was opened.
  RETURN_IF_ERROR(file.read_at(0, sizeof(header_bytes), &header_bytes));
  std::string header(std::min<uint64_t>(header_bytes, kMaxHeaderBytes), '\0');
  RETURN_IF_ERROR(
      file.read_at(sizeof(header_bytes), static_cast<int64_t>(header.size()), header.data()));
  return header;
}

absl::StatusOr<struct stat> stat_of(const File& file) {
  struct stat info {};
  if (::fstat(file.descriptor(), &info) == 0) return info;
  return failed_precondition("{}: cannot be examined", file.path().string());
}

constexpr int64_t kBlockBytes = 4096;

// The middle of a tensor: its first byte in the file, and its size.
std::pair<int64_t, int64_t> block_of(const TensorInfo& tensor) {
  const int64_t bytes = std::min(kBlockBytes, tensor.end - tensor.begin);
  return {tensor.begin + (tensor.end - tensor.begin - bytes) / 2, bytes};
}

int64_t ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

// Waits until the file's last change is some ticks old by this host's clock, so that the next
// change gets another time. Gives up if the times are from another clock, or the file changes all
// the time.
absl::StatusOr<struct stat> settled_stat_of(const File& file) {
  constexpr int64_t kTicksNs = 20'000'000;  // A tick is 1 to 10 ms.
  for (int tries = 0;; ++tries) {
    ASSIGN_OR_RETURN(const struct stat info, stat_of(file));
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t age_ns = ns_of(now) - ns_of(info.st_ctim);
    if (age_ns < 0 || age_ns >= kTicksNs || tries == 3) return info;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kTicksNs - age_ns));
  }
}

std::string time_text(const timespec& time) {
  return fmt::format("{}.{:09}", time.tv_sec, time.tv_nsec);
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::open(const fs::path& folder, const ProgressCallback& alive) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  std::error_code ignored;  // single_file() reports a path that cannot be examined.
  if (fs::exists(folder / kSingleName, ignored)) {
    RETURN_IF_ERROR(checkpoint.add_file(folder / kSingleName, alive));
  } else if (fs::exists(folder / kIndexName, ignored)) {
    RETURN_IF_ERROR(checkpoint.open_shards(folder / kIndexName, alive));
  } else {
    ASSIGN_OR_RETURN(const fs::path path, single_file(folder));
    RETURN_IF_ERROR(checkpoint.add_file(path, alive));
  }
  RETURN_IF_ERROR(checkpoint.sort_tensors());
  return checkpoint;
}

absl::Status Checkpoint::add_file(const fs::path& path, const ProgressCallback& alive) {
  ASSIGN_OR_RETURN(File file, File::open(path));
  ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors, read_safetensors_header(file, alive));
  for (TensorInfo& tensor : tensors) {
    tensor.file = static_cast<int32_t>(files_.size());
    tensors_.push_back(std::move(tensor));
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status Checkpoint::open_shards(const fs::path& index_path, const ProgressCallback& alive) {
  ASSIGN_OR_RETURN(const WeightMap shards, read_index(index_path, alive));
  std::set<std::string> names;
  for (const auto& [tensor, shard] : shards) names.insert(shard);
  for (const std::string& name : names) {
    const fs::path path = folder_ / name;
    std::error_code ignored;  // add_file() reports a path that cannot be examined.
    if (fs::status(path, ignored).type() == fs::file_type::not_found) {
      return failed_precondition("{}: missing, but {} names it; fetch it again", path.string(),
                                 kIndexName);
    }
    RETURN_IF_ERROR(add_file(path, alive));
  }

  std::set<std::pair<std::string_view, std::string_view>> stored;         // Shard and tensor.
  const std::vector<std::string> file_names(names.begin(), names.end());  // In the order of files_.
  for (const TensorInfo& tensor : tensors_) stored.emplace(file_names[tensor.file], tensor.name);
  for (const auto& [tensor, shard] : shards) {
    if (stored.count({shard, tensor}) == 0) {
      return failed_precondition(
          "{}: must have the tensor \"{}\", which {} puts there, found none; do index and shards "
          "belong together?",
          (folder_ / shard).string(), printable(tensor), kIndexName);
    }
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::sort_tensors() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors_.begin(), tensors_.end(),
                         [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twice == tensors_.end()) return absl::OkStatus();
  return failed_precondition("{}: the tensor \"{}\" is in two files, {} and {}; keep only one",
                             folder_.string(), printable(twice->name),
                             files_[twice[0].file].path().filename().string(),
                             files_[twice[1].file].path().filename().string());
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorInfo& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

absl::StatusOr<std::string> Checkpoint::stamp() const {
  std::string text;
  for (const File& file : files_) {
    ASSIGN_OR_RETURN(const struct stat info, settled_stat_of(file));
    ASSIGN_OR_RETURN(const std::string header, header_of(file));
    text += fmt::format("{} {} {} {} {} {}:", info.st_dev, info.st_ino, info.st_size,
                        time_text(info.st_mtim), time_text(info.st_ctim), header.size());
    text += header;
  }
  return text;
}

absl::StatusOr<std::string> Checkpoint::written_at() const {
  std::string text;
  for (const File& file : files_) {
    ASSIGN_OR_RETURN(const struct stat info, stat_of(file));
    text += time_text(info.st_mtim) + "\n";
  }
  return text;
}

absl::StatusOr<std::string> Checkpoint::contents(const ProgressCallback& alive) const {
  std::string text;
  for (const File& file : files_) {
    ASSIGN_OR_RETURN(const std::string header, header_of(file));
    text += fmt::format("{} {}:", file.bytes(), header.size());
    text += header;
  }
  for (const TensorInfo& tensor : tensors_) {
    const auto [begin, bytes] = block_of(tensor);
    file_of(tensor).expect_read(begin, bytes);
  }
  std::array<char, kBlockBytes> block;
  uint32_t checksum = 0;
  for (const TensorInfo& tensor : tensors_) {
    const auto [begin, bytes] = block_of(tensor);
    RETURN_IF_ERROR(file_of(tensor).read_at(begin, bytes, block.data()));
    checksum = crc32c(block.data(), static_cast<size_t>(bytes), checksum);
    if (alive) alive();
  }
  return text + fmt::format("{:08x}", checksum);
}

absl::Status Checkpoint::read(const TensorInfo& tensor, const Rectangle& rectangle, bool transposed,
                              float* out, int64_t out_stride) const {
  LOCKSTEP_CHECK(rectangle.inside(tensor.rows, tensor.cols));
  LOCKSTEP_CHECK(out_stride >= (transposed ? rectangle.rows() : rectangle.cols()));
  LOCKSTEP_CHECK(0 <= tensor.file && tensor.file < static_cast<int64_t>(files_.size()));
  if (rectangle.empty()) return absl::OkStatus();
  if (!widens(tensor.dtype)) {
    return failed_precondition("{}: must be F32, BF16 or F16, the checkpoint has {}",
                               printable(tensor.name), tensor.dtype_name);
  }
  const int64_t element = dtype_bytes(tensor.dtype);
  const int64_t widest = transposed ? kTransposedCols : kBufferBytes / element;
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  const auto tile =
      std::make_unique_for_overwrite<float[]>(transposed ? kBufferBytes / element : 0);

  for (int64_t col = rectangle.col_begin; col < rectangle.col_end; col += widest) {
    const Strip strip{.row_bytes = tensor.cols * element,
                      .width = std::min(widest, rectangle.col_end - col) * element};
    const int64_t cols = strip.width / element;
    const int64_t right = col - rectangle.col_begin;
    for (int64_t row = rectangle.row_begin; row < rectangle.row_end; row += strip.tallest()) {
      const int64_t rows = std::min(strip.tallest(), rectangle.row_end - row);
      const int64_t down = row - rectangle.row_begin;
      const int64_t offset = tensor.begin + row * strip.row_bytes + col * element;
      RETURN_IF_ERROR(read_rows(files_[tensor.file], offset, rows, strip, buffer.get()));
      for (int64_t r = 0; r < rows; ++r) {
        float* to = transposed ? &tile[r * cols] : out + (down + r) * out_stride + right;
        widen(tensor.dtype, buffer.get() + r * strip.pitch(), cols, to);
      }
      if (transposed)
        transpose(tile.get(), rows, cols, out + right * out_stride + down, out_stride);
    }
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::read_stored(const TensorInfo& tensor, const Rectangle& rectangle,
                                     void* out) const {
  LOCKSTEP_CHECK(rectangle.inside(tensor.rows, tensor.cols));
  if (rectangle.empty()) return absl::OkStatus();
  const int64_t element = (tensor.end - tensor.begin) / (tensor.rows * tensor.cols);
  LOCKSTEP_CHECK(element * tensor.rows * tensor.cols == tensor.end - tensor.begin);
  const int64_t width = rectangle.cols() * element;
  const int64_t row_bytes = tensor.cols * element;
  int64_t offset = tensor.begin + rectangle.row_begin * row_bytes + rectangle.col_begin * element;
  auto* to = static_cast<std::byte*>(out);
  const File& file = files_[tensor.file];
  if (width == row_bytes) return file.read_at(offset, rectangle.rows() * width, to);
  for (int64_t row = 0; row < rectangle.rows(); ++row, offset += row_bytes, to += width) {
    RETURN_IF_ERROR(file.read_at(offset, width, to));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
