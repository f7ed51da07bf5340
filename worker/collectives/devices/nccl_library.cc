// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/devices/nccl_library.h"

#include "base/status.h"
#include "base/system/vendor_library.h"

namespace lockstep {
namespace {

constexpr int kMinVersion = 21800;
constexpr const char* kPackageFolders[] = {"nvidia/nccl/lib"};
constexpr VendorLibrary kNcclLibrary = {
    .file = "libnccl.so.2", .package_folders = kPackageFolders, .variable = "LOCKSTEP_NCCL"};

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

absl::StatusOr<Nccl> load_nccl(const std::string& file) {
  const OpenedLibrary library =
      file.empty() ? open_library(kNcclLibrary) : open_library_file(file, kNcclLibrary);
  if (library.switched_off) return absl::CancelledError(library.problem);
  if (library.handle == nullptr) return absl::NotFoundError(library.problem);
  Nccl nccl;
  int (*get_version)(int*) = nullptr;
  if (!library.find("ncclGetVersion", get_version) || get_version(&nccl.version) != 0 ||
      nccl.version < kMinVersion) {
    return failed_precondition("{}: must be NCCL {} or later, found {}", library.path,
                               nccl_version_text(kMinVersion), nccl_version_text(nccl.version));
  }
  if (library.find("ncclGetUniqueId", nccl.get_unique_id) &&
      library.find("ncclCommInitRankConfig", nccl.init) &&
      library.find("ncclCommGetAsyncError", nccl.async_error) &&
      library.find("ncclCommAbort", nccl.abort) &&
      library.find("ncclGetErrorString", nccl.error_text) &&
      library.find("ncclGetLastError", nccl.last_error) &&
      library.find("ncclGroupStart", nccl.group_start) &&
      library.find("ncclGroupEnd", nccl.group_end) &&
      library.find("ncclAllGather", nccl.all_gather) &&
      library.find("ncclBroadcast", nccl.broadcast) &&
      library.find("ncclAllReduce", nccl.all_reduce)) {
    return nccl;
  }
  return failed_precondition("{}: it lacks a function of NCCL {}", library.path,
                             nccl_version_text(kMinVersion));
}

}  // namespace lockstep
