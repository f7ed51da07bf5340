// SPDX-License-Identifier: Apache-2.0
#include "base/system/out_of_memory.h"

#include <unistd.h>

#include <exception>
#include <string_view>
#include <system_error>

#include "base/status.h"

namespace lockstep {
namespace {

std::terminate_handler otherwise = nullptr;

// Allocates no memory.
[[noreturn]] void end_with(std::string_view line) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  _exit(2);
}

void on_terminate() {
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
      end_with(
          "lockstep: out of memory: the system has none left; raise the limit (ulimit -v, the "
          "container's) or use less\n");
    } catch (const std::system_error& failure) {
      if (failure.code() == std::errc::resource_unavailable_try_again) {
        end_with(
            "lockstep: a thread cannot be started: raise the limits of memory and of "
            "processes (ulimit -v, ulimit -u, the container's)\n");
      }
    } catch (...) {  // Our own bug: the default handler reports it.
    }
  }
  otherwise();
}

}  // namespace

absl::Status out_of_memory() {
  return unavailable("the server has no memory for this request; try again later, or send less");
}

void explain_ends_of_memory() { otherwise = std::set_terminate(on_terminate); }

}  // namespace lockstep
