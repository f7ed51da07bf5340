// SPDX-License-Identifier: Apache-2.0
// Errors from outside (files, peers, requests, memory) as values. A message is one line that names
// the thing, what it must be, what was found and how to fix it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// The project's error codes: kInvalidArgument for a user's input (exit 2), kFailedPrecondition for
// an unsuitable machine or checkpoint (exit 2), kResourceExhausted for memory (exit 2),
// kUnavailable for a lost peer, kInternal for our own bug (exit 1).
template <typename... Args>
absl::Status invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
absl::Status failed_precondition(fmt::format_string<Args...> format, Args&&... args) {
  return absl::FailedPreconditionError(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
absl::Status resource_exhausted(fmt::format_string<Args...> format, Args&&... args) {
  return absl::ResourceExhaustedError(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
absl::Status unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return absl::UnavailableError(fmt::format(format, std::forward<Args>(args)...));
}

// The message as a std::string: Debian's absl has a string_view of its own.
inline std::string message_of(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

// The text of an errno: "No such file or directory". Thread-safe.
std::string error_text(int error);

// An untrusted string as messages show it: printable ASCII, at most 120 bytes.
std::string printable(std::string_view text);

// "1 worker", "2 workers".
inline std::string count_of(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace lockstep

#define LOCKSTEP_CONCAT_INNER(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                    \
  do {                                                 \
    absl::Status lockstep_status = (expression);       \
    if (!lockstep_status.ok()) return lockstep_status; \
  } while (false)

#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(LOCKSTEP_CONCAT(lockstep_result_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) return result.status();                     \
  declaration = std::move(result).value()
