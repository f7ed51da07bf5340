// SPDX-License-Identifier: Apache-2.0
// One thread runs everything: a coroutine per request, and in addition either one for the arrivals
// or one per client of a closed loop. Real clients reuse connections, so this client does, too.
#include "tools/load/client.h"

#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>

#include "base/version.h"
#include "tools/load/answer.h"

namespace lockstep {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Error = boost::system::error_code;
using Request = http::request<http::string_body>;
using Response = http::response_parser<http::buffer_body>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);  // Errors as values.
constexpr auto kProgressInterval = std::chrono::milliseconds(100);
constexpr auto kFindModelTimeout = std::chrono::seconds(10);
constexpr uint32_t kHeadBytes = 64 << 10;
constexpr size_t kErrorBytes = 64 << 10;  // The limit for a body that is not a stream.
constexpr size_t kPieceBytes = 16 << 10;

struct Connection {
  explicit Connection(asio::io_context& io) : stream(io) {}
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
};

// A running request: its connection, and the answer after its head was read.
struct Exchange {
  std::unique_ptr<Connection> connection;
  std::optional<Response> response;
};

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

// The peer closed the connection before the request arrived.
bool was_closed(const Error& error) {
  return error == http::error::end_of_stream || error == asio::error::connection_reset ||
         error == asio::error::broken_pipe;
}

}  // namespace

class LoadClient::Impl {
 public:
  explicit Impl(LoadOptions options) : options_(std::move(options)) {}

  absl::Status prepare();
  const std::string& model() const { return options_.model; }
  std::vector<LoadRecord> run(Workload& workload,
                              const std::function<void(const LoadProgress&)>& progress);
  int64_t in_flight() const { return progress_.in_flight; }
  void stop() {
    stopping_ = true;
    io_.stop();
  }

 private:
  double now_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool is_over(double at_s) const {
    return options_.duration_s.has_value() && at_s >= *options_.duration_s;
  }
  Request make_request(http::verb verb, const std::string& path) const;

  asio::awaitable<void> send_as_they_arrive(Workload& workload);
  asio::awaitable<void> send_one_by_one(Workload& workload);
  asio::awaitable<void> send(LoadRequest request, double scheduled_s);
  asio::awaitable<void> answer(const LoadRequest& request, LoadRecord* record);

  asio::awaitable<Error> connect(Exchange* exchange, Clock::time_point deadline, bool* kept);
  asio::awaitable<Error> begin(const Request& request, Clock::time_point deadline,
                               Exchange* exchange);
  asio::awaitable<Error> read_piece(Exchange* exchange, std::string* piece);
  asio::awaitable<std::string> read_body(Exchange* exchange);
  void keep(Exchange* exchange);
  asio::awaitable<void> fetch_models(absl::StatusOr<std::string>* result);

  LoadOptions options_;
  asio::io_context io_{1};
  tcp::resolver::results_type addresses_;
  std::vector<std::unique_ptr<Connection>> idle_;  // The connection used last is taken first.
  std::atomic<bool> stopping_ = false;
  Clock::time_point start_;
  LoadProgress progress_;
  std::vector<LoadRecord> records_;
};

Request LoadClient::Impl::make_request(http::verb verb, const std::string& path) const {
  Request request(verb, options_.url.path + path, 11);
  request.set(http::field::host, options_.url.authority());
  request.set(http::field::user_agent, std::string("lockstep/") + kVersion);
  request.set(http::field::accept, "text/event-stream, application/json");
  if (!options_.api_key.empty()) {
    request.set(http::field::authorization, "Bearer " + options_.api_key);
  }
  return request;
}

asio::awaitable<Error> LoadClient::Impl::connect(Exchange* exchange, Clock::time_point deadline,
                                                 bool* kept) {
  *kept = !idle_.empty();
  if (*kept) {
    exchange->connection = std::move(idle_.back());
    idle_.pop_back();
    exchange->connection->stream.expires_at(deadline);
    co_return Error();
  }
  exchange->connection = std::make_unique<Connection>(io_);
  beast::tcp_stream& stream = exchange->connection->stream;
  stream.expires_at(deadline);
  const auto [error, endpoint] = co_await stream.async_connect(addresses_, kTuple);
  if (error) co_return error;
  Error ignored;
  stream.socket().set_option(tcp::no_delay(true), ignored);
  co_return Error();
}

// Sends the request and reads the answer's head. A server may close an idle connection just when it
// is used again: then the request is sent on another connection.
asio::awaitable<Error> LoadClient::Impl::begin(const Request& request, Clock::time_point deadline,
                                               Exchange* exchange) {
  for (;;) {
    bool kept = false;
    if (const Error error = co_await connect(exchange, deadline, &kept)) co_return error;
    Connection& connection = *exchange->connection;
    const auto [not_sent, sent] = co_await http::async_write(connection.stream, request, kTuple);
    if (not_sent == beast::error::timeout) co_return not_sent;
    // After any other error the answer is still read: a server may refuse an unfinished request.
    exchange->response.emplace();
    exchange->response->header_limit(kHeadBytes);
    exchange->response->body_limit(boost::none);
    const auto [error, bytes] = co_await http::async_read_header(
        connection.stream, connection.buffer, *exchange->response, kTuple);
    if (!kept || !was_closed(error)) co_return error;
  }
}

// Reads the next part of the body into `piece`; "" after its end.
asio::awaitable<Error> LoadClient::Impl::read_piece(Exchange* exchange, std::string* piece) {
  Response& response = *exchange->response;
  Connection& connection = *exchange->connection;
  piece->clear();
  while (piece->empty() && !response.is_done()) {
    piece->resize(kPieceBytes);
    response.get().body().data = piece->data();
    response.get().body().size = piece->size();
    const auto [error, bytes] =
        co_await http::async_read_some(connection.stream, connection.buffer, response, kTuple);
    piece->resize(piece->size() - response.get().body().size);
    if (error && error != http::error::need_buffer) co_return error;
  }
  co_return Error();
}

asio::awaitable<std::string> LoadClient::Impl::read_body(Exchange* exchange) {
  std::string body, piece;
  while (body.size() < kErrorBytes && !co_await read_piece(exchange, &piece) && !piece.empty()) {
    body += piece;
  }
  co_return body;
}

void LoadClient::Impl::keep(Exchange* exchange) {
  if (!exchange->response->is_done() || !exchange->response->keep_alive()) return;
  if (exchange->connection->buffer.size() > 0) return;  // The server sent more than the answer.
  idle_.push_back(std::move(exchange->connection));
}

asio::awaitable<void> LoadClient::Impl::answer(const LoadRequest& request, LoadRecord* record) {
  AnswerReader reader(record);
  Request message = make_request(http::verb::post, path_of(options_.endpoint));
  message.set(http::field::content_type, "application/json");
  message.body() = make_body(options_.endpoint, options_.model, request, options_.extra);
  message.prepare_payload();
  Exchange exchange;
  const auto fail = [&](const char* kind, const Error& error) {
    reader.fail(error == beast::error::timeout ? "timeout" : kind, error.message(), now_s());
  };
  const Clock::time_point deadline = Clock::now() + seconds(options_.timeout_s);
  if (const Error error = co_await begin(message, deadline, &exchange)) {
    co_return fail(exchange.response.has_value() ? "no answer" : "no connection", error);
  }
  const auto& head = exchange.response->get();
  if (head.result_int() != 200) {
    const std::string body = co_await read_body(&exchange);
    reader.fail(fmt::format("HTTP {}", head.result_int()), error_message(body), now_s());
    co_return keep(&exchange);
  }
  const auto type = head[http::field::content_type];
  if (!type.starts_with("text/event-stream")) {
    const std::string found(type.data(), type.size());
    co_return reader.fail("no stream", "Content-Type: " + printable(found), now_s());
  }
  std::string piece;
  do {
    if (const Error error = co_await read_piece(&exchange, &piece)) {
      co_return fail("cut off", error);
    }
    const int64_t events = record->text_events;
    reader.feed(piece, now_s());
    progress_.text_events += record->text_events - events;
  } while (!piece.empty() && record->failure.empty());
  reader.end(now_s());
  keep(&exchange);
}

asio::awaitable<void> LoadClient::Impl::send(LoadRequest request, double scheduled_s) {
  LoadRecord record{.scheduled_s = scheduled_s, .sent_s = now_s()};
  ++progress_.in_flight;
  co_await answer(request, &record);
  --progress_.in_flight;
  ++(record.failure.empty() ? progress_.answered : progress_.failed);
  records_.push_back(std::move(record));
}

asio::awaitable<void> LoadClient::Impl::send_as_they_arrive(Workload& workload) {
  asio::steady_timer timer(io_);
  while (std::optional<LoadRequest> request = workload.next()) {
    const double at_s = request->at_s;
    if (is_over(at_s)) break;
    timer.expires_at(start_ + seconds(at_s));
    co_await timer.async_wait(kTuple);
    asio::co_spawn(io_, send(*std::move(request), at_s), asio::detached);
  }
}

asio::awaitable<void> LoadClient::Impl::send_one_by_one(Workload& workload) {
  while (!is_over(now_s())) {
    std::optional<LoadRequest> request = workload.next();
    if (!request.has_value()) break;
    co_await send(*std::move(request), now_s());
  }
}

std::vector<LoadRecord> LoadClient::Impl::run(
    Workload& workload, const std::function<void(const LoadProgress&)>& progress) {
  io_.restart();
  start_ = Clock::now();
  if (options_.concurrency == 0) {
    asio::co_spawn(io_, send_as_they_arrive(workload), asio::detached);
  }
  for (int place = 0; place < options_.concurrency; ++place) {
    asio::co_spawn(io_, send_one_by_one(workload), asio::detached);
  }
  while (!stopping_ && !io_.stopped()) {
    io_.run_for(kProgressInterval);
    progress_.elapsed_s = now_s();
    progress(progress_);
  }
  return std::move(records_);
}

asio::awaitable<void> LoadClient::Impl::fetch_models(absl::StatusOr<std::string>* result) {
  const std::string url = options_.url.text() + "/models";
  Exchange exchange;
  const Request request = make_request(http::verb::get, "/models");
  const Clock::time_point deadline = Clock::now() + kFindModelTimeout;
  if (const Error error = co_await begin(request, deadline, &exchange)) {
    *result = failed_precondition("{}: {}; is a server running there?", url, error.message());
    co_return;
  }
  const std::string body = co_await read_body(&exchange);
  if (const unsigned status = exchange.response->get().result_int(); status != 200) {
    *result = failed_precondition("{}: HTTP {}, {}; name the model with --model", url, status,
                                  error_message(body));
    co_return;
  }
  *result = first_model(body);
  if (!result->ok()) {
    *result = failed_precondition("{}: {}; name the model with --model", url,
                                  message_of(result->status()));
  }
  keep(&exchange);
}

absl::Status LoadClient::Impl::prepare() {
  Error error;
  addresses_ = tcp::resolver(io_).resolve(options_.url.host, options_.url.port, error);
  if (error) return failed_precondition("{}: {}", options_.url.text(), error.message());
  if (!options_.model.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> model = absl::CancelledError("interrupted");
  asio::co_spawn(io_, fetch_models(&model), asio::detached);
  if (!stopping_) io_.run();
  RETURN_IF_ERROR(model.status());
  options_.model = *std::move(model);
  return absl::OkStatus();
}

LoadClient::LoadClient(LoadOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
LoadClient::~LoadClient() = default;
absl::Status LoadClient::prepare() { return impl_->prepare(); }
const std::string& LoadClient::model() const { return impl_->model(); }
std::vector<LoadRecord> LoadClient::run(Workload& workload,
                                        const std::function<void(const LoadProgress&)>& progress) {
  return impl_->run(workload, progress);
}
int64_t LoadClient::in_flight() const { return impl_->in_flight(); }
void LoadClient::stop() { impl_->stop(); }

}  // namespace lockstep
