// SPDX-License-Identifier: Apache-2.0
#include "tools/grpc_log.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "base/log_limit.h"
#include "base/status.h"

namespace lockstep {
namespace {

void log_line(gpr_log_func_args* line) {
  static LogLimit limit{std::chrono::seconds(1)};
  const int64_t lines = limit.count();
  if (lines == 0) return;
  spdlog::warn("gRPC: {}{}", printable(line->message),
               lines > 1 ? fmt::format(" ({} lines of its log)", lines) : "");
}

}  // namespace

void limit_grpc_log() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(log_line);
}

}  // namespace lockstep
