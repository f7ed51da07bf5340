// SPDX-License-Identifier: Apache-2.0
// Makes and maps regions. /dev/shm is not used: containers give it 64 MiB or nothing.
#include "worker/collectives/host/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr uint64_t kMagic = 0x3330706574736b4cull;  // "Lkstep03": 03 is the layout's version.
constexpr size_t kPageBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

size_t whole_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

size_t header_bytes() { return whole_pages(sizeof(RegionHeader)); }

int slots_of(const RegionShape& shape) { return shape.slots == 0 ? shape.ranks : shape.slots; }

// The offset of the shared values.
size_t shared_begin(int slots) {
  return header_bytes() + whole_pages(static_cast<size_t>(slots) * 2 * sizeof(Slot));
}

size_t region_bytes(const RegionShape& shape) {
  LOCKSTEP_CHECK(0 < shape.ranks && shape.ranks <= slots_of(shape));
  LOCKSTEP_CHECK(slots_of(shape) <= kMaxRegionRanks && shape.shared_bytes >= 0);
  return shared_begin(slots_of(shape)) + whole_pages(static_cast<size_t>(shape.shared_bytes));
}

void start(void* memory, size_t bytes, const RegionShape& shape) {
  auto* header = new (memory) RegionHeader;
  header->magic = kMagic;
  header->bytes = bytes;
  header->epoch = shape.epoch;
  header->ranks = shape.ranks;
  header->slots = slots_of(shape);
  LOCKSTEP_CHECK(shape.numbers.empty() || static_cast<int>(shape.numbers.size()) == shape.ranks);
  for (int i = 0; i < shape.ranks; ++i) {
    header->numbers[i] = shape.numbers.empty() ? i : shape.numbers[i];
  }
}

absl::StatusOr<int> make_memfd(size_t bytes) {
  constexpr unsigned kNoExec = 0x8;  // MFD_NOEXEC_SEAL: since Linux 6.3, required by some systems.
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = memfd_create("lockstep", flags | kNoExec);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("lockstep", flags);
  if (fd < 0) return resource_exhausted("no memfd for the collectives: {}", error_text(errno));
  int error = ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (error == 0) error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error == 0 && fcntl(fd, F_ADD_SEALS, kSeals) != 0) error = errno;
  if (error == 0) return fd;
  close(fd);
  return resource_exhausted("no {} bytes of shared memory for the collectives: {}", bytes,
                            error_text(error));
}

absl::StatusOr<void*> map(int fd, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory != MAP_FAILED) return memory;
  return resource_exhausted("cannot map {} bytes of shared memory for the collectives: {}", bytes,
                            error_text(errno));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Region>> Region::create(const RegionShape& shape, int* fd) {
  const size_t bytes = region_bytes(shape);
  ASSIGN_OR_RETURN(*fd, make_memfd(bytes));
  absl::StatusOr<void*> memory = map(*fd, bytes);
  if (!memory.ok()) {
    close(*fd);
    *fd = -1;
    return memory.status();
  }
  start(*memory, bytes, shape);
  return std::shared_ptr<Region>(new Region(*memory, bytes, shape.shared_bytes, true));
}

absl::StatusOr<std::shared_ptr<Region>> Region::attach(int fd, const RegionShape& shape) {
  const size_t bytes = region_bytes(shape);
  struct stat info;
  // Without the seals the sender could truncate the file, and a load here would raise SIGBUS.
  if (fstat(fd, &info) != 0 || info.st_size != static_cast<off_t>(bytes) ||
      (fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) {
    return failed_precondition(
        "the first rank sent no sealed shared memory of {} bytes: does it have another version?",
        bytes);
  }
  ASSIGN_OR_RETURN(void* memory, map(fd, bytes));
  std::shared_ptr<Region> region(new Region(memory, bytes, shape.shared_bytes, true));
  const RegionHeader& header = region->header();
  if (header.magic != kMagic || header.bytes != bytes || header.ranks != shape.ranks ||
      header.slots != slots_of(shape) || header.epoch != shape.epoch) {
    return failed_precondition(
        "shared memory of the first rank: must be for {2} ranks in epoch {3}, found {0} ranks in "
        "epoch {1}",
        header.ranks, header.epoch, shape.ranks, shape.epoch);
  }
  return region;
}

std::shared_ptr<Region> Region::in_process(const RegionShape& shape) {
  const size_t bytes = region_bytes(shape);
  void* memory = operator new (bytes, std::align_val_t{kPageBytes});
  start(memory, bytes, shape);
  return std::shared_ptr<Region>(new Region(memory, bytes, shape.shared_bytes, false));
}

Region::Region(void* memory, size_t bytes, int64_t shared_bytes, bool mapped)
    : memory_(memory), bytes_(bytes), shared_bytes_(shared_bytes), mapped_(mapped) {}

Region::~Region() {
  if (mapped_) {
    munmap(memory_, bytes_);
  } else {
    operator delete (memory_, std::align_val_t{kPageBytes});
  }
}

Slot& Region::slot(int number, int buffer) {
  std::byte* slots = static_cast<std::byte*>(memory_) + header_bytes();
  return reinterpret_cast<Slot*>(slots)[number * 2 + buffer];
}

std::span<std::byte> Region::shared() {
  std::byte* begin =
      static_cast<std::byte*>(memory_) + shared_begin(static_cast<int>(header().slots));
  return {begin, static_cast<size_t>(shared_bytes_)};
}

}  // namespace lockstep
