// SPDX-License-Identifier: Apache-2.0
// A library that behaves like NCCL for ranks that are threads of one process. Memory is the host's
// and communicators block: a call returns when all ranks have made it, and the last rank performs
// it for all. Only an abort ends a call earlier. fakeNcclBehave() selects a failure.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

enum Result { kSuccess = 0, kSystemError = 2, kInvalid = 4, kRemoteError = 6 };
enum Kind { kAllGather, kBroadcast, kAllReduce };

struct Call {
  Kind kind;
  const void* in;
  void* out;
  size_t bytes;
  int root;
};

// The communicators that were made with one unique id.
struct World {
  std::vector<std::vector<Call>> wanted;  // By rank: its calls in this round.
  int joined = 0;
  int called = 0;    // Ranks that have called in this round.
  int64_t done = 0;  // Completed rounds.
  int error = kSuccess;
  bool over = false;  // A rank is gone: no more calls complete.
};

std::mutex mutex;
std::condition_variable changed;
std::map<int, World> worlds;
int ids = 0;
int aborts = 0;
std::string behaviour;
int faulty_rank = -1;

}  // namespace

struct ncclComm {
  World* world;
  int rank;
  bool aborted = false;
  bool calling = false;
};

struct ncclUniqueId {
  char bytes[128];
};

// The fields as of version 2.18.
struct ncclConfig {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cga_cluster_size, min_ctas, max_ctas;
  const char* net_name;
  int split_share;
};

namespace {

thread_local bool in_group = false;
thread_local ncclComm* group_of = nullptr;
thread_local std::vector<Call> group;

bool fails(const char* how, int rank) { return behaviour == how && rank == faulty_rank; }

void add(std::vector<float>& sum, const std::vector<char>& part) {
  for (size_t i = 0; i < sum.size(); ++i) {
    float value = 0;
    std::memcpy(&value, part.data() + i * sizeof(float), sizeof(float));
    sum[i] += value;
  }
}

// Performs one call with the arguments of every rank. False: the ranks' calls differ.
bool perform(World& world, size_t index) {
  const Call& first = world.wanted[0][index];
  std::vector<std::vector<char>> in;
  for (const std::vector<Call>& calls : world.wanted) {
    const Call& call = calls[index];
    if (call.kind != first.kind || call.bytes != first.bytes) return false;
    const auto* begin = static_cast<const char*>(call.in);
    in.emplace_back(begin, begin + call.bytes);
  }
  std::vector<float> sum(first.bytes / sizeof(float));
  for (const std::vector<char>& part : in) {
    if (first.kind == kAllReduce) add(sum, part);
  }
  for (const std::vector<Call>& calls : world.wanted) {
    char* out = static_cast<char*>(calls[index].out);
    if (first.kind == kAllReduce) std::memcpy(out, sum.data(), first.bytes);
    if (first.kind == kBroadcast) std::memcpy(out, in[first.root].data(), first.bytes);
    for (size_t r = 0; first.kind == kAllGather && r < in.size(); ++r) {
      std::memcpy(out + r * first.bytes, in[r].data(), first.bytes);
    }
    if (behaviour == "lies" && &calls == &world.wanted[faulty_rank]) out[5] ^= 1;
  }
  return true;
}

void perform_all(World& world) {
  for (size_t i = 0; i < world.wanted[0].size(); ++i) {
    for (const std::vector<Call>& others : world.wanted) {
      if (others.size() != world.wanted[0].size()) world.error = kInvalid;
    }
    if (world.error == kSuccess && !perform(world, i)) world.error = kInvalid;
  }
  world.called = 0;
  ++world.done;
}

// A communicator that was aborted during a call is freed by that call.
int returned(ncclComm* comm, int result) {
  comm->calling = false;
  if (comm->aborted) delete comm;
  return result;
}

int take(ncclComm* comm, std::vector<Call> calls) {
  std::unique_lock lock(mutex);
  World& world = *comm->world;
  if (fails("calls fail", comm->rank)) return kSystemError;
  comm->calling = true;
  world.wanted[comm->rank] = std::move(calls);
  const int64_t done = world.done;
  if (++world.called == static_cast<int>(world.wanted.size()) && !world.over) perform_all(world);
  changed.notify_all();
  changed.wait(lock, [&] { return comm->aborted || (world.done > done && behaviour != "stalls"); });
  return returned(comm, comm->aborted ? kRemoteError : world.error);
}

int take(ncclComm* comm, const Call& call) {
  if (!in_group) return take(comm, std::vector<Call>{call});
  group_of = comm;
  group.push_back(call);
  return kSuccess;
}

}  // namespace

extern "C" {

// `how` is "" for no failure. For all ranks: "no id"; "init stalls": no initialization returns;
// "stalls": no call returns. For `rank` only: "init fails"; "calls fail"; "lies": the rank's result
// has a wrong byte.
void fakeNcclBehave(const char* how, int rank) {
  const std::lock_guard lock(mutex);
  behaviour = how;
  faulty_rank = rank;
  changed.notify_all();
}
// Whether running calls stall.
int fakeNcclStalls() {
  const std::lock_guard lock(mutex);
  return behaviour == "stalls";
}
// The number of communicators that were aborted since this function was last called.
int fakeNcclAborts() {
  const std::lock_guard lock(mutex);
  return std::exchange(aborts, 0);
}

int ncclGetVersion(int* version) {
  *version = 22809;
  return kSuccess;
}
const char* ncclGetErrorString(int) { return "a fault of the library"; }
const char* ncclGetLastError(ncclComm*) { return "no room in /dev/shm\n(line 7)"; }

int ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  if (behaviour == "no id") return kSystemError;
  *id = {};
  ++ids;
  std::memcpy(id->bytes + 5, &ids, sizeof(ids));
  return kSuccess;
}

int ncclCommInitRankConfig(ncclComm** comm, int ranks, ncclUniqueId id, int rank,
                           ncclConfig* config) {
  std::unique_lock lock(mutex);
  if (config->size < sizeof(ncclConfig) || config->magic != 0xcafebeef || config->blocking != 1) {
    return kInvalid;
  }
  int number = 0;
  std::memcpy(&number, id.bytes + 5, sizeof(number));
  World& world = worlds[number];
  world.wanted.resize(ranks);
  if (fails("init fails", rank)) {
    world.over = true;
    return kSystemError;
  }
  ++world.joined;
  changed.notify_all();
  // If a rank has failed, the others wait for it until the test ends the failure.
  changed.wait(lock, [&] {
    return world.joined == ranks ? behaviour != "init stalls" : world.over && behaviour.empty();
  });
  if (world.joined < ranks) return kRemoteError;
  *comm = new ncclComm{.world = &world, .rank = rank};
  return kSuccess;
}

int ncclCommGetAsyncError(ncclComm* comm, int* state) {
  const std::lock_guard lock(mutex);
  *state = comm->world->error;
  return kSuccess;
}

int ncclCommAbort(ncclComm* comm) {
  const std::lock_guard lock(mutex);
  comm->world->over = true;
  comm->aborted = true;
  ++aborts;
  changed.notify_all();
  if (!comm->calling) delete comm;
  return kSuccess;
}

int ncclGroupStart() {
  in_group = true;
  return kSuccess;
}
int ncclGroupEnd() {
  in_group = false;
  return group.empty() ? static_cast<int>(kSuccess) : take(group_of, std::exchange(group, {}));
}

int ncclAllGather(const void* in, void* out, size_t count, int type, ncclComm* comm, void*) {
  return type == 1 ? take(comm, Call{kAllGather, in, out, count, 0}) : kInvalid;
}
int ncclBroadcast(const void* in, void* out, size_t count, int type, int root, ncclComm* comm,
                  void*) {
  return type == 1 ? take(comm, Call{kBroadcast, in, out, count, root}) : kInvalid;
}
int ncclAllReduce(const void* in, void* out, size_t count, int type, int operation, ncclComm* comm,
                  void*) {
  if (type != 7 || operation != 0) return kInvalid;
  return take(comm, Call{kAllReduce, in, out, count * sizeof(float), 0});
}

}  // extern "C"
