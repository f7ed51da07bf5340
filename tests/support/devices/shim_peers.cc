// SPDX-License-Identifier: Apache-2.0
#include "tests/support/devices/shim_peers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "worker/kernels/cuda/peers/exchange.h"

namespace lockstep {
namespace {

PeerMemory* map_peer_memory(int file) {
  void* memory = mmap(nullptr, kPeerMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<PeerMemory*>(memory);
}

// These devices store in PeerHandle::driver a process, and its descriptor of the memory's file.
struct FileHandle {
  int64_t process;
  int file;
};

FileHandle file_of(const PeerHandle& peer) {
  FileHandle file{};
  std::memcpy(&file, peer.driver, sizeof(file));
  return file;
}

}  // namespace

ShimPeers::~ShimPeers() {
  if (memory_ != nullptr) munmap(memory_, kPeerMemoryBytes);
  if (file_ >= 0) ::close(file_);
}

PeerMemory* ShimPeers::own(PeerHandle* handle, std::string* problem) {
  if (file_ < 0) {
    file_ = memfd_create("lockstep peer memory", MFD_CLOEXEC);
    if (file_ >= 0 && ftruncate(file_, kPeerMemoryBytes) == 0) memory_ = map_peer_memory(file_);
  }
  if (memory_ == nullptr) *problem = "no memory";
  *handle = {.address = memory_};
  const FileHandle file{getpid(), file_};
  std::memcpy(handle->driver, &file, sizeof(file));
  return memory_;
}

PeerMemory* ShimPeers::open(const PeerHandle& peer, std::string* problem) {
  const FileHandle handle = file_of(peer);
  if (handle.process == getpid()) return static_cast<PeerMemory*>(peer.address);
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  PeerMemory* const memory = file < 0 ? nullptr : map_peer_memory(file);
  if (file >= 0) ::close(file);
  if (memory == nullptr) *problem = path + " cannot be mapped";
  return memory;
}

void ShimPeers::close(const PeerHandle& peer, PeerMemory* memory) {
  if (file_of(peer).process != getpid()) munmap(memory, kPeerMemoryBytes);
}

const char* ShimPeers::all_reduce(const PeerGroup& group, const PeerSum& sum) {
  queue_exchange({group.ended, {sum.data}, [group, sum] {
                    LOCKSTEP_CHECK(cuda_shim::all_reduce(group, sum, nullptr) == nullptr);
                  }});
  return nullptr;
}

const char* ShimPeers::all_gather(const PeerGroup& group, const PeerGather& gather) {
  queue_exchange({group.ended, {gather.from, gather.to}, [group, gather] {
                    LOCKSTEP_CHECK(cuda_shim::all_gather(group, gather, nullptr) == nullptr);
                  }});
  return nullptr;
}

const char* ShimPeers::reduce_add_norm(const PeerGroup& group, const KernelArgs& args) {
  queue_exchange(
      {group.ended,
       {args.in[0].data, args.in[1].data, args.in[2].data, args.out[0].data, args.out[1].data},
       [group, args] { LOCKSTEP_CHECK(cuda_shim::reduce_add_norm(group, args) == nullptr); }});
  return nullptr;
}

}  // namespace lockstep
