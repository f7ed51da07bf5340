// SPDX-License-Identifier: Apache-2.0
// Output goes to files, not pipes, so that a process that writes much never waits for a test to
// read.
#include "tests/support/processes/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/check.h"

extern char** environ;

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name(*variable, std::strcspn(*variable, "="));
    if (!added.contains(name)) variables.push_back(*variable);
  }
  for (const auto& [name, value] : added) variables.push_back(name + "=" + value);
  return variables;
}

// The zombies, or all other children.
std::vector<pid_t> find_children(pid_t parent, bool zombies) {
  std::vector<pid_t> children;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = read_file(entry.path().string() + "/stat");
    const size_t end = stat.rfind(')');  // The end of the process's name, which may have blanks.
    if (end == std::string::npos) continue;
    std::istringstream rest(stat.substr(end + 1));
    char state = 0;
    pid_t its_parent = 0;
    rest >> state >> its_parent;
    if (its_parent == parent && (state == 'Z') == zombies) children.push_back(std::stoi(name));
  }
  return children;
}

}  // namespace

std::string lockstep_binary() { return LOCKSTEP_BINARY; }

std::vector<std::string> with_descriptors(int limit) {
  return {"/bin/sh", "-c", "ulimit -n " + std::to_string(limit) + "; exec \"$@\"", "sh"};
}

Process::Process(std::vector<std::string> arguments, const ProcessOptions& options) {
  std::ofstream(folder_.path() / "in") << options.input;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, (folder_.path() / "in").c_str(), O_RDONLY, 0);
  const int create = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, 1, (folder_.path() / "out").c_str(), create, 0600);
  posix_spawn_file_actions_addopen(&files, 2, (folder_.path() / "err").c_str(), create, 0600);
  std::vector<std::string> variables = environment_with(options.environment);
  arguments.insert(arguments.begin(), options.wrapper.begin(), options.wrapper.end());
  const std::string program = arguments[0];
  LOCKSTEP_CHECK(posix_spawnp(&pid_, program.c_str(), &files, nullptr, pointers(arguments).data(),
                              pointers(variables).data()) == 0);
  posix_spawn_file_actions_destroy(&files);
}

Process::~Process() {
  if (!ended_) {
    signal(SIGKILL);
    wait();
  }
}

void Process::signal(int number) {
  if (!ended_) kill(pid_, number);
}

std::string Process::out() const { return read_file(folder_.path() / "out"); }
std::string Process::err(size_t from) const { return read_file(folder_.path() / "err", from); }

bool Process::wait_for_err(const std::string& text, std::chrono::seconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (Clock::now() < deadline) {
    if (err().find(text) != std::string::npos) return true;
    if (wait(std::chrono::seconds(0)) != -1) return err().find(text) != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

int Process::wait(std::chrono::seconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!ended_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      ended_ = true;
      code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      break;
    }
    if (timeout.count() == 0) return -1;
    if (Clock::now() >= deadline) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      ended_ = true;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return code_;
}

int lines_said(const std::string& err) {
  std::istringstream lines(err);
  int said = 0;
  for (std::string line; std::getline(lines, line);) {
    said += line.find("] [lockstep] [") == std::string::npos ? 1 : 0;
  }
  return said;
}

ProcessResult run_lockstep(std::vector<std::string> arguments, const ProcessOptions& options,
                           std::chrono::seconds timeout) {
  arguments.insert(arguments.begin(), lockstep_binary());
  Process process(std::move(arguments), options);
  ProcessResult result;
  result.code = process.wait(timeout);
  result.out = process.out();
  result.err = process.err();
  return result;
}

std::vector<pid_t> children_of(pid_t parent) { return find_children(parent, false); }
std::vector<pid_t> zombies_of(pid_t parent) { return find_children(parent, true); }

bool is_alive(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const size_t end = stat.rfind(')');
  return end != std::string::npos && stat[end + 2] != 'Z';
}

std::string TemporaryFolder::write(const std::string& name, const std::string& content) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string read_file(const std::string& path, size_t from) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace lockstep::testing
