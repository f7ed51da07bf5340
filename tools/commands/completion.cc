// SPDX-License-Identifier: Apache-2.0
// `lockstep completion`: prints the files that a system installs beside the program: completions
// for a shell, or the manual page.
#include <fmt/format.h>

#include "base/version.h"
#include "tools/commands/command.h"
#include "tools/usage/completions.h"
#include "tools/usage/man_page.h"

namespace lockstep {

std::shared_ptr<Command> add_completion(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto shell = std::make_shared<std::string>();
  command->app = parent.add_subcommand(
      "completion",
      "Prints a script for a shell, or the manual page. With the script, the shell completes "
      "commands, flags, values of flags and file names.\n\n  source <(lockstep completion bash)");
  add_flags(*command->app, {{"SHELL", shell.get(), "A shell; or man, for the manual page in roff",
                             FlagValues{.words = {"bash", "zsh", "fish", "man"}}}});
  command->app->get_option("SHELL")->required();
  command->run = [shell, &parent](Interrupt&) {
    const std::vector<CommandUsage> commands = usage_of(parent);
    fmt::print("{}", *shell == "bash"   ? bash_completion(commands)
                     : *shell == "zsh"  ? zsh_completion(commands)
                     : *shell == "fish" ? fish_completion(commands)
                                        : man_page(commands, kVersion));
    return absl::OkStatus();
  };
  return command;
}

}  // namespace lockstep
