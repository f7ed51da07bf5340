// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/observed_server.h"

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace lockstep::faults {
namespace {

namespace fs = std::filesystem;

// Splits a list whose items end with a zero byte, as in command lines and environments.
std::vector<std::string> items_of(const std::string& bytes) {
  std::vector<std::string> items;
  std::istringstream stream(bytes);
  for (std::string item; std::getline(stream, item, '\0');) items.push_back(item);
  return items;
}

std::string proc(pid_t pid, const char* name) {
  return testing::read_file(fmt::format("/proc/{}/{}", pid, name));
}

// Returns "" if the process has no such argument.
std::string argument_of(pid_t pid, const std::string& flag) {
  const std::vector<std::string> arguments = items_of(proc(pid, "cmdline"));
  const auto found = std::find(arguments.begin(), arguments.end(), flag);
  return found == arguments.end() || found + 1 == arguments.end() ? "" : *(found + 1);
}

int64_t descriptors_of(pid_t pid) {
  std::error_code error;
  const fs::directory_iterator begin(fmt::format("/proc/{}/fd", pid), error);
  return error ? 0 : std::distance(begin, fs::directory_iterator());
}

std::vector<std::string> arguments_for(const std::string& model, int workers,
                                       std::vector<std::string> more) {
  std::vector<std::string> all = {testing::lockstep_binary(),
                                  "serve",
                                  model,
                                  "--grpc",
                                  "127.0.0.1:0",
                                  "--http",
                                  "off",
                                  "--workers",
                                  std::to_string(workers),
                                  "--threads",
                                  "1",
                                  "--quantize",
                                  "q4",
                                  "--log-level",
                                  "info"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

const char* name_of(Phase phase) {
  constexpr const char* kNames[kPhases] = {"joining", "loading", "null step", "idle", "step"};
  return kNames[static_cast<int>(phase)];
}

ObservedServer::ObservedServer(const std::string& model, int workers, std::vector<std::string> more)
    : workers_(workers),
      process_(arguments_for(model, workers, std::move(more)),
               {.environment = {{"XDG_RUNTIME_DIR", runtime_.path()}}}) {
  if (!process_.wait_for_err("ready;", std::chrono::seconds(300))) {
    process_.signal(SIGKILL);
    process_.wait(std::chrono::seconds(10));
  }
  const std::string err = process_.err();
  const size_t at = std::min(err.find("gRPC at "), err.size() - 8) + 8;
  channel_ = grpc::CreateChannel(err.substr(at, err.find(',', at) - at),
                                 grpc::InsecureChannelCredentials());
  stub_ = v1::Generation::NewStub(channel_);
}

int ObservedServer::end() {
  process_.signal(SIGINT);
  return process_.wait(std::chrono::seconds(60));
}

// ---- The log ----

void ObservedServer::read_log() {
  const std::string unread = process_.err(read_);
  size_t begin = 0;
  for (size_t end; (end = unread.find('\n', begin)) != std::string::npos; begin = end + 1) {
    note(unread.substr(begin, end - begin));
  }
  read_ += begin;
}

void ObservedServer::note(const std::string& line) {
  const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
  if (has("a worker joined: pid ")) {
    joined_.insert(std::atoi(line.c_str() + line.find("pid ") + 4));
  } else if (has("ranks load")) {
    phase_ = Phase::kLoading;
    ++epochs_;
  } else if (has("a null step follows")) {
    phase_ = Phase::kNullStep;
  } else if (has("ranks ready")) {
    phase_ = Phase::kStep;
  } else if (has("the group of workers was lost")) {
    last_loss_ = line;
  } else if (has("the group was lost") || has("no group yet")) {
    phase_ = Phase::kJoining;
  }
}

Phase ObservedServer::logged_phase() {
  read_log();
  return phase_;
}

Phase ObservedServer::phase() {
  if (logged_phase() != Phase::kStep) return phase_;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::GetModelResponse model;
  stub_->GetModel(&context, {}, &model);
  return model.running() + model.waiting() > 0 ? Phase::kStep : Phase::kIdle;
}

int ObservedServer::epochs() {
  read_log();
  return epochs_;
}

bool ObservedServer::has_joined(pid_t pid) {
  read_log();
  return joined_.contains(pid);
}

const std::string& ObservedServer::last_loss() {
  read_log();
  return last_loss_;
}

// ---- Health ----

bool ObservedServer::is_serving() {
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const grpc::Slice empty("");
  const grpc::ByteBuffer request(&empty, 1);
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  LOCKSTEP_CHECK(queue.Next(&tag, &ok));
  grpc::Slice bytes;
  if (!status.ok() || !reply.DumpToSingleSlice(&bytes).ok()) return false;
  return std::string(bytes.begin(), bytes.end()) == "\x08\x01";  // status: SERVING
}

// ---- Processes ----

pid_t ObservedServer::worker(int rank) const {
  for (const pid_t pid : testing::children_of(process_.pid())) {
    if (argument_of(pid, "--rank") == std::to_string(rank)) return pid;
  }
  return 0;
}

std::optional<JoinPoint> ObservedServer::join_point() const {
  constexpr std::string_view kToken = "LOCKSTEP_JOIN_TOKEN=";
  for (const pid_t pid : testing::children_of(process_.pid())) {
    const std::string address = argument_of(pid, "--coordinator");
    for (const std::string& variable : items_of(proc(pid, "environ"))) {
      if (!address.empty() && variable.starts_with(kToken)) {
        return JoinPoint{.address = address, .token = variable.substr(kToken.size())};
      }
    }
  }
  return std::nullopt;
}

std::string ObservedServer::odd_processes() const {
  if (!testing::zombies_of(process_.pid()).empty()) return "there is a zombie";
  std::vector<int> count(workers_);
  for (const pid_t pid : testing::children_of(process_.pid())) {
    const std::string rank = argument_of(pid, "--rank");
    if (rank.empty() || std::stoi(rank) >= workers_) return fmt::format("pid {} has no rank", pid);
    ++count[std::stoi(rank)];
  }
  for (int rank = 0; rank < workers_; ++rank) {
    if (count[rank] != 1) return fmt::format("worker {} runs {} times", rank, count[rank]);
  }
  return "";
}

Footprint ObservedServer::footprint() const {
  const std::string status = proc(process_.pid(), "status");
  const size_t at = status.find("VmRSS:");
  const int64_t kb = at == std::string::npos ? 0 : std::atoll(status.c_str() + at + 6);
  return {.descriptors = descriptors_of(process_.pid()), .resident_mb = kb / 1024};
}

int64_t ObservedServer::descriptors_of_workers() const {
  int64_t max = 0;
  for (const pid_t pid : testing::children_of(process_.pid())) {
    max = std::max(max, descriptors_of(pid));
  }
  return max;
}

}  // namespace lockstep::faults
