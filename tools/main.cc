// SPDX-License-Identifier: Apache-2.0
// `lockstep`: one binary with a subcommand for each function.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/status.h"
#include "base/system/cpu.h"
#include "base/system/descriptors.h"
#include "base/system/out_of_memory.h"
#include "base/version.h"
#include "tools/commands/command.h"
#include "tools/commands/flag_checks.h"
#include "tools/grpc_log.h"
#include "tools/terminal.h"

namespace {

constexpr char kAbout[] =
    "Serves one large language model from many processes. By default any number of them computes\n"
    "the same bits.\n"
    "MODEL is a folder in Hugging Face layout. Without MODEL the small demo model is used.\n\n"
    "  lockstep generate --prompt \"Once upon a time\" --workers 2\n"
    "  lockstep serve MODEL --workers 4";

// With fewer file descriptors, libraries end the process where they cannot report an error.
constexpr int64_t kMinDescriptors = 64;

// Runs before everything else in the process: gRPC opens a descriptor when it is loaded.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*before_libraries)() = lockstep::open_standard_descriptors;

int fail(const std::string& message, int code) {
  lockstep::say("lockstep: " + message);
  return code;
}

// CLI11's messages may have several lines; ours have one.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

// Incomplete output with exit code 0 would mislead the reader: check that all of it was written.
absl::Status run(const lockstep::Command& command, lockstep::Interrupt& interrupt) {
  try {
    const absl::Status status = command.run(interrupt);
    errno = 0;
    if (!status.ok() || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return status;
  } catch (const std::system_error& error) {  // From fmt::print, if the stream fails.
    if (error.code() == std::errc::resource_unavailable_try_again) throw;  // From std::thread.
    errno = error.code().value();
  }
  return absl::InternalError(
      fmt::format("standard output: cannot be written: {}",
                  errno != 0 ? lockstep::error_text(errno) : "an earlier line was lost"));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep;
  explain_ends_of_memory();
  const int64_t descriptors = raise_descriptor_limit();
  limit_grpc_log();
  CLI::App app(kAbout, "lockstep");
  app.set_version_flag("--version", fmt::format("lockstep {}", kVersion));
  app.require_subcommand(1);
  const std::shared_ptr<Command> commands[] = {
      add_serve(app),    add_worker(app), add_generate(app), add_chat(app),    add_tokenize(app),
      add_template(app), add_bench(app),  add_plan(app),     add_inspect(app), add_quantize(app),
      add_compare(app),  add_doctor(app), add_workers(app),  add_verify(app),  add_completion(app)};
  const auto is_command = [&](const auto& command) { return command->app->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(commands, is_command)) {
    return fail(fmt::format("there is no command {} (lockstep --help lists them)", argv[1]), 2);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail(one_line(explain(error, app)), 2);
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("lockstep"));
  spdlog::set_level(spdlog::level::warn);
  if (const auto problem = isa_problem()) return fail(*problem, 2);
  if (descriptors < kMinDescriptors) {
    return fail(fmt::format("open files: the limit must be at least {}, found {}; raise it "
                            "(ulimit -n 1024)",
                            kMinDescriptors, descriptors),
                2);
  }
  Interrupt interrupt;
  for (const auto& command : commands) {
    if (!command->app->parsed()) continue;
    const absl::Status status = run(*command, interrupt);
    if (status.ok()) return command->exit_code;
    const int code = exit_code_of(status);
    return code == 130 ? code : fail(one_line(message_of(status)), code);
  }
  return 1;
}
