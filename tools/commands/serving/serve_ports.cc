// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/serving/serve_ports.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/sockets/address.h"
#include "base/status.h"
#include "coordinator/api/health_routes.h"
#include "coordinator/api/key_gate.h"
#include "coordinator/http/json_response.h"
#include "coordinator/metrics/metrics_routes.h"
#include "coordinator/metrics/workers_route.h"
#include "coordinator/output/format.h"
#include "coordinator/page/page_routes.h"
#include "coordinator/ports/listener.h"
#include "tools/commands/command.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kLastAnswers{1'000};

constexpr int64_t kMaxAdminConnections = 64;

// Off loopback a port must use TLS, or be named by --insecure.
absl::Status check_plaintext(const PortFlags& flags, const std::string& name,
                             const std::string& address, bool has_tls) {
  if (has_tls || is_loopback(address) || std::ranges::count(flags.insecure, name) > 0) {
    return absl::OkStatus();
  }
  return invalid_argument(
      "--{} {}: other machines could reach this port in plain text; give {}, use a 127.0.0.1 "
      "address, or allow it with --insecure {}",
      name, address,
      name == "cluster" ? "--cluster-cert, --cluster-key and --cluster-ca"
                        : "--tls-cert and --tls-key",
      name);
}

absl::Status check_public(const PortFlags& flags, const char* name, const std::string& address) {
  if (address == "off") return absl::OkStatus();
  RETURN_IF_ERROR(check_address(fmt::format("--{}", name).c_str(), address));
  return check_plaintext(flags, name, address, flags.tls.given());
}

// The admin port has no keys: its clients are operators. The server's own certificate stops no
// client; --tls-ca does.
absl::Status check_admin(const PortFlags& flags) {
  if (flags.admin_address == "off") return absl::OkStatus();
  RETURN_IF_ERROR(check_address("--admin", flags.admin_address));
  if (is_loopback(flags.admin_address) || !flags.tls.ca.empty() ||
      std::ranges::count(flags.insecure, "admin") > 0) {
    return absl::OkStatus();
  }
  return invalid_argument(
      "--admin {}: other machines could reach this port, which needs no key; give --tls-ca, use a "
      "127.0.0.1 address, or allow it with --insecure admin",
      flags.admin_address);
}

// GET /log-level returns the coordinator's log level, PUT /log-level?level=info sets it.
std::vector<http::Route> log_level_routes() {
  const auto answer = [](http::Exchange& exchange) {
    const auto level = spdlog::level::to_string_view(spdlog::get_level());
    exchange.respond(http::json_response({{"level", std::string(level.data(), level.size())}}));
  };
  const auto change = [answer](const std::shared_ptr<http::Exchange>& exchange) {
    constexpr std::string_view kLevel = "level=";
    const std::string& query = exchange->request().query;
    const absl::Status status =
        set_log_level(query.starts_with(kLevel) ? query.substr(kLevel.size()) : std::string());
    if (status.ok()) return answer(*exchange);
    exchange->respond(http::render_refusal(
        {.status = 400, .code = "invalid_level", .message = message_of(status), .headers = {}}));
  };
  return {{"GET", "/log-level",
           [answer](const std::shared_ptr<http::Exchange>& exchange) { answer(*exchange); }},
          {"PUT", "/log-level", change}};
}

absl::Status check_tls(const TlsFiles& files) {
  if (files.cert.empty() != files.key.empty()) {
    return invalid_argument(
        "--tls-cert and --tls-key: both must be given, or neither, found only --tls-{}",
        files.key.empty() ? "cert" : "key");
  }
  if (!files.ca.empty() && files.cert.empty()) {
    return invalid_argument("--tls-ca {}: must be used with --tls-cert and --tls-key", files.ca);
  }
  return absl::OkStatus();
}

// Names the flag of a port that cannot be opened.
absl::Status of_flag(const char* flag, const absl::Status& status) {
  return {status.code(), fmt::format("{}: {}", flag, message_of(status))};
}

// The names of --tool-parser or --reasoning-parser.
std::string parser_form(bool (Format::*reads)() const) {
  std::string form = "auto|none";
  for (const Format& format : formats()) {
    if ((format.*reads)()) form += fmt::format("|{}", format.names[0]);
  }
  return form;
}

}  // namespace

absl::Status check_address(const char* flag, const std::string& address) {
  const absl::StatusOr<HostAndPort> parts = split_address(address);
  if (parts.ok() && !parts->host.empty()) return absl::OkStatus();
  if (parts.ok()) return invalid_argument("{} {}: must be HOST:PORT, found no host", flag, address);
  return invalid_argument("{} {}", flag, message_of(parts.status()));
}

std::vector<Flag> PortFlags::flags() {
  return {
      {"--grpc", &grpc_address,
       "The address for clients' gRPC calls; port 0: any free port, off: none",
       FlagValues{.form = "HOST:PORT|off"}},
      {"--http", &http_address,
       "The address for HTTP calls of clients and probes; port 0: any free port, off: none",
       FlagValues{.form = "HOST:PORT|off"}},
      {"--admin", &admin_address,
       "The address for the operator's HTTP calls: metrics, traces, log level, without a key; port "
       "0: any free port, off: none",
       FlagValues{.form = "HOST:PORT|off"}},
      {"--api-threads", &api_threads,
       "Max number of requests above 64 KiB from one IP network that are parsed and tokenized at "
       "once. Another thread takes only shorter requests. If the number is 2 or more, one more "
       "thread serves other networks",
       FlagValues{.min = 1, .max = 256}},
      {"--tls-cert", &tls.cert,
       "PEM file of the certificate, for --grpc, --http and --admin; reloaded when it changes",
       FlagValues{.form = "FILE"}},
      {"--tls-key", &tls.key, "PEM file of the certificate's key", FlagValues{.form = "FILE"}},
      {"--tls-ca", &tls.ca,
       "PEM file of an authority: only clients whose certificate this authority signed are served",
       FlagValues{.form = "FILE"}},
      {"--api-keys", &api_keys,
       "File of lines NAME KEY [requests=N] [priority=M]. Clients of --grpc and --http need one of "
       "the keys (Authorization: Bearer KEY). A client with this key may have at most N requests "
       "at once, and may request priority numbers from M (default 0) on",
       FlagValues{.form = "FILE"}},
      {"--lowest-priority", &lowest_priority,
       "Without --api-keys: the smallest priority number that clients may request; requests with "
       "smaller numbers run first",
       FlagValues{.min = -1000, .max = 0}},
      {"--allow-host", &browsers.hosts,
       "Names that the Host header of a request may have, in addition to this machine's own names, "
       "e.g. chat.example.com if a local proxy has this name. Host is checked only in requests to "
       "a loopback address at a port without keys",
       FlagValues{.has_commas = true}},
      {"--allow-origin", &browsers.origins,
       "Origins whose web pages may send HTTP requests and read the answers (CORS): "
       "https://chat.example.com, or * for all",
       FlagValues{.has_commas = true}},
      {"--no-page", &no_page,
       "Do not serve the page to chat and to watch the workers: its paths answer 404"},
      {"--tool-parser", &openai.tool_parser,
       "The format in which the model writes tool calls: auto (by the chat template), none, or a "
       "format of "
       "docs/http.md, such as hermes",
       FlagValues{.form = parser_form(&Format::has_calls)}},
      {"--reasoning-parser", &openai.reasoning_parser,
       "The format in which the model writes thoughts: auto (by the chat template), none, or a "
       "format of docs/http.md, "
       "such as think",
       FlagValues{.form = parser_form(&Format::has_thoughts)}},
      {"--unknown-fields", &openai.unknown_fields,
       "Fields of requests that are in no table of docs/http.md: pass (they are ignored, and "
       "listed in the header X-Ignored-Fields and in the log) or error (status 400)",
       FlagValues{.form = "pass|error"}},
      {"--insecure", &insecure,
       "Ports that other machines may use without TLS, separated by commas: "
       "http,grpc,cluster,admin",
       FlagValues{.words = {"http", "grpc", "cluster", "admin"}, .has_commas = true}},
  };
}

absl::Status PortFlags::check(const ClusterServerOptions& cluster) const {
  if (grpc_address == "off" && http_address == "off") {
    return invalid_argument(
        "--grpc and --http: must not both be off, found both off; clients need one of them");
  }
  RETURN_IF_ERROR(check_tls(tls));
  RETURN_IF_ERROR(http::check(browsers));
  RETURN_IF_ERROR(check_public(*this, "grpc", grpc_address));
  RETURN_IF_ERROR(check_public(*this, "http", http_address));
  RETURN_IF_ERROR(check_admin(*this));
  if (cluster.address.empty()) return absl::OkStatus();
  return check_plaintext(*this, "cluster", cluster.address, cluster.tls.given());
}

absl::StatusOr<std::unique_ptr<ServedPorts>> ServedPorts::start(ServedModel served,
                                                                const Observed& observed,
                                                                const PortFlags& flags) {
  auto ports = std::make_unique<ServedPorts>();
  if (!flags.api_keys.empty()) {
    ASSIGN_OR_RETURN(ports->keys_, ApiKeys::load(flags.api_keys));
    served.keys = ports->keys_.get();
  }
  served.lowest_priority = flags.lowest_priority;
  ports->pool_ = std::make_unique<TaskPool>(TaskPoolOptions{.threads = flags.api_threads});
  const bool has_grpc = flags.grpc_address != "off";
  const bool has_http = flags.http_address != "off";
  const bool has_admin = flags.admin_address != "off";
  const int64_t all = connections_within_limit();
  const int64_t admin = has_admin ? std::min(all / 8, kMaxAdminConnections) : 0;
  const int64_t sharers = has_grpc && has_http ? 2 : 1;
  const int64_t connections = (all - admin) / sharers;
  if (has_grpc) {
    auto grpc = PublicServer::start(
        served, ports->pool_.get(),
        {.address = flags.grpc_address, .max_connections = connections, .tls = flags.tls});
    if (!grpc.ok()) return of_flag("--grpc", grpc.status());
    ports->grpc_ = *std::move(grpc);
  }
  if (has_http) RETURN_IF_ERROR(ports->start_http(served, observed, flags, connections));
  if (has_admin) RETURN_IF_ERROR(ports->start_admin(served, observed, flags, admin));
  return ports;
}

std::vector<http::Route> ServedPorts::routes_of_metrics(const ServedModel& served,
                                                        const Observed& observed) const {
  const auto counts = [api = api_.get(), log = observed.log, queue = served.queue,
                       resumable = served.resumable]() -> ServerCounts {
    return {.unknown_fields = api != nullptr ? api->unknown_fields() : 0,
            .log_lines_dropped = log->dropped(),
            .too_long_waits = queue != nullptr ? queue->refused() : 0,
            .resumable = resumable != nullptr ? resumable->counts() : ResumableCounts()};
  };
  return metrics_routes(observed.metrics, served.engine, observed.cluster, counts);
}

absl::Status ServedPorts::start_http(const ServedModel& served, const Observed& observed,
                                     const PortFlags& flags, int64_t max_connections) {
  ASSIGN_OR_RETURN(api_, openai::Api::create(served, pool_.get(), flags.openai));
  std::vector<std::string> open = {"/health", "/livez", "/ping", "/readyz"};
  std::vector<http::Route> routes;
  if (!flags.no_page) routes = page_routes();
  for (const http::Route& route : routes) open.push_back(route.path);
  for (std::vector<http::Route>& more : std::array{
           http::health_routes(served), routes_of_metrics(served, observed), api_->routes()}) {
    std::ranges::move(more, std::back_inserter(routes));
  }
  http::ServerOptions options = {.address = flags.http_address,
                                 .max_connections = max_connections,
                                 .when_full = http::WhenFull::kShare,
                                 .tls = flags.tls};
  http::Handler handler = http::Router(std::move(routes));
  if (served.keys != nullptr) {
    handler = with_keys(served.keys, open, /*uncounted=*/"/v1/streams/", handler);
    options.gate = gate_of(served.keys, open);
  }
  http::BrowserRules browsers = flags.browsers;
  browsers.keyless = served.keys == nullptr;
  options.page_headers = http::page_headers_of(browsers);
  auto server =
      http::Server::start(options, http::with_browser_rules(browsers, std::move(handler)));
  if (!server.ok()) return of_flag("--http", server.status());
  http_ = *std::move(server);
  return absl::OkStatus();
}

absl::Status ServedPorts::start_admin(const ServedModel& served, const Observed& observed,
                                      const PortFlags& flags, int64_t max_connections) {
  trace_ = std::make_unique<TraceRequests>(observed.recorder, served.engine);
  std::vector<http::Route> routes = http::health_routes(served);
  for (std::vector<http::Route>& more :
       std::array{routes_of_metrics(served, observed), trace_->routes(), log_level_routes()}) {
    std::ranges::move(more, std::back_inserter(routes));
  }
  routes.push_back(workers_route(observed.cluster));
  // No page of another origin may call here: the port has no keys.
  const http::BrowserRules browsers = {
      .keyless = true, .shares = false, .hosts = flags.browsers.hosts};
  auto server =
      http::Server::start({.address = flags.admin_address,
                           .threads = 1,
                           .max_connections = max_connections,
                           .when_full = http::WhenFull::kCloseOther,
                           .tls = flags.tls},
                          http::with_browser_rules(browsers, http::Router(std::move(routes))));
  if (!server.ok()) return of_flag("--admin", server.status());
  admin_ = *std::move(server);
  return absl::OkStatus();
}

std::string ServedPorts::names() const {
  std::vector<std::string> names;
  if (grpc_ != nullptr) names.push_back("gRPC at " + grpc_->address());
  if (http_ != nullptr) names.push_back("HTTP at " + http_->address());
  if (admin_ != nullptr) names.push_back("admin at " + admin_->address());
  return fmt::format("{}", fmt::join(names, ", "));
}

void ServedPorts::drain() {
  if (http_ != nullptr) http_->drain();
  if (grpc_ != nullptr) grpc_->drain();
}

void ServedPorts::finish() {
  grpc_.reset();  // First, so that a proxy sends the next call to another server.
  if (http_ != nullptr) http_->finish(kLastAnswers);
}

}  // namespace lockstep
