// SPDX-License-Identifier: Apache-2.0
// `lockstep workers`: the workers that have joined a server, their weights and times.
#include "base/json.h"
#include "tools/commands/command.h"
#include "tools/load/http_get.h"
#include "tools/terminal.h"

namespace lockstep {
namespace {

struct WorkersFlags {
  std::string admin = "127.0.0.1:8001";
  TlsFiles tls;
  bool json = false;
};

constexpr const char* kRow = "{:>4}  {:<8}{:>8}  {:<14}{:<15}{:<10}{:>9}{:>9}  {:<15}{}\n";

// The distinctive part of a host's name: "gpu-7" for a worker with --host-name, else the beginning
// of the machine's boot id.
std::string short_host(const std::string& host) {
  return printable(host.substr(0, std::min<size_t>(host.find('/'), 13)));
}

// "3 s", "12 min", "7 h", "40 d"
std::string age(int64_t ms) {
  const int64_t seconds = ms / 1000;
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86'400) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86'400);
}

absl::StatusOr<std::string> row_of(const Json& worker) {
  ASSIGN_OR_RETURN(const int64_t rank, get_int(worker, "rank", -1));
  ASSIGN_OR_RETURN(const std::string role, get_string(worker, "role"));
  ASSIGN_OR_RETURN(const int64_t pid, get_int(worker, "pid"));
  ASSIGN_OR_RETURN(const std::string device, get_string(worker, "device"));
  ASSIGN_OR_RETURN(const std::string isa, get_string(worker, "isa"));
  ASSIGN_OR_RETURN(const std::string numeric_class, get_string(worker, "numeric_class"));
  ASSIGN_OR_RETURN(const int64_t weight_bytes, get_int(worker, "weight_bytes"));
  ASSIGN_OR_RETURN(const int64_t joined_ms, get_int(worker, "joined_ms"));
  ASSIGN_OR_RETURN(const std::string host, get_string(worker, "host"));
  ASSIGN_OR_RETURN(const int64_t holds, get_int(worker, "holds", -1));
  ASSIGN_OR_RETURN(const int64_t holds_ms, get_int(worker, "holds_ms", 0));
  return fmt::format(
      kRow, rank < 0 ? "-" : std::to_string(rank), role, pid, printable(device), printable(isa),
      printable(numeric_class), weight_bytes > 0 ? human_bytes(weight_bytes) : "-", age(joined_ms),
      holds < 0 ? "-" : fmt::format("rank {}, {}", holds, age(holds_ms)), short_host(host));
}

absl::Status workers(const WorkersFlags& flags) {
  if (flags.tls.cert.empty() != flags.tls.key.empty()) {
    return invalid_argument("--cert and --key: both must be given, or neither, found only --{}",
                            flags.tls.key.empty() ? "cert" : "key");
  }
  const bool has_scheme = flags.admin.find("://") != std::string::npos;
  ASSIGN_OR_RETURN(Url url, parse_url("--admin", (has_scheme ? "" : "http://") + flags.admin));
  url.path = "/workers";
  const absl::StatusOr<std::string> body = http_get(url, std::chrono::seconds(10), flags.tls);
  if (!body.ok()) {
    return absl::Status(body.status().code(),
                        message_of(body.status()) +
                            " (--admin must be the operator's port: `lockstep serve --admin ...`)");
  }
  if (flags.json) {
    fmt::print("{}\n", *body);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Json answer, parse_json(*body, url.text()));
  const auto list = answer.find("workers");
  if (list == answer.end() || !list->is_array()) {
    return failed_precondition("{}: must be the operator's port of a server, --admin of serve",
                               url.text());
  }
  std::string table = fmt::format(kRow, "rank", "role", "pid", "device", "instructions", "class",
                                  "weights", "joined", "holds", "host");
  for (const Json& worker : *list) {
    ASSIGN_OR_RETURN(const std::string row, row_of(worker));
    table += row;
  }
  fmt::print("{}", table);
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_workers(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<WorkersFlags>();
  command->app =
      parent.add_subcommand("workers",
                            "Lists the workers that have joined a server: rank, role, bytes of "
                            "weights, time since the worker\njoined; for a spare also the rank "
                            "whose weights it holds. Needs the operator's port (serve --admin).");
  add_flags(
      *command->app,
      {{"--admin", &flags->admin,
        "The operator's port of the server: HOST:PORT, or https://HOST:PORT if the server has "
        "--tls-cert",
        FlagValues{.form = "HOST:PORT"}},
       {"--ca", &flags->tls.ca,
        "PEM file of the authority that signed the server's certificate (default: the system's "
        "authorities)",
        FlagValues{.form = "FILE"}},
       {"--cert", &flags->tls.cert,
        "PEM file of the client certificate, for a server with --tls-ca",
        FlagValues{.form = "FILE"}},
       {"--key", &flags->tls.key, "PEM file of the client certificate's key",
        FlagValues{.form = "FILE"}},
       {"--json", &flags->json, "Print the answer of GET /workers: one JSON object on one line"}});
  command->run = [flags](Interrupt&) { return workers(*flags); };
  return command;
}

}  // namespace lockstep
