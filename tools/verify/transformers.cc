// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/transformers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

#include "base/source_dir.h"
#include "base/status.h"
#include "base/system/file.h"
#include "base/system/spawn_attributes.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxOutputBytes = 16 << 20;

// Next to the installed or bundled binary, or in the source tree.
std::optional<fs::path> find_script() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate : {folder / "../share/lockstep/verify_reference.py",
                                    fs::path(LOCKSTEP_SOURCE_DIR) / "tools/verify_reference.py"}) {
    if (fs::exists(candidate, error)) return candidate.lexically_normal();
  }
  return std::nullopt;
}

std::string last_line(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const size_t begin = text.rfind('\n');
  return std::string(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

// Runs the command with both outputs in files. Returns its exit code; an error: it did not start.
absl::StatusOr<int> run(const std::vector<std::string>& words, const fs::path& out,
                        const fs::path& err) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, SpawnAttributes().get(),
                                  arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return failed_precondition("--python {}: {}", words[0], error_text(failed));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return absl::InternalError(fmt::format("waitpid: {}", error_text(errno)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

absl::StatusOr<std::string> run_transformers(const TransformersOptions& options,
                                             std::span<const int32_t> prompt,
                                             const fs::path& file) {
  const std::optional<fs::path> script = find_script();
  if (!script) return failed_precondition("verify_reference.py is not next to this program");
  std::vector<std::string> words = {
      options.python, script->string(), options.model.string(),
      file.string(),  "--tokens",       fmt::format("{}", fmt::join(prompt, ","))};
  if (options.trust_remote_code) words.emplace_back("--trust-remote-code");
  const fs::path out = file.string() + ".out", err = file.string() + ".err";
  ASSIGN_OR_RETURN(const int code, run(words, out, err));
  if (code == 127) return failed_precondition("--python {}: there is no such program", words[0]);
  ASSIGN_OR_RETURN(const std::string said, read_file(code == 0 ? out : err, kMaxOutputBytes));
  const std::string line = last_line(said);
  if (code == 0) return line;
  return failed_precondition(
      "{}", line.empty() ? fmt::format("{} ended with code {}", script->string(), code) : line);
}

}  // namespace lockstep
