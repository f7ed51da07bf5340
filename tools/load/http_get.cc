// SPDX-License-Identifier: Apache-2.0
#include "tools/load/http_get.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "base/version.h"

namespace lockstep {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;
using Response = http::response_parser<http::string_body>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);  // Errors as values.
constexpr uint64_t kMaxBodyBytes = 16 << 20;

// The stream's deadline holds for all of it.
asio::awaitable<Error> get(const Url& url, const tcp::resolver::results_type& addresses,
                           beast::tcp_stream& stream, Response& response) {
  if (const auto [error, address] = co_await stream.async_connect(addresses, kTuple); error) {
    co_return error;
  }
  http::request<http::empty_body> request(http::verb::get, url.path, 11);
  request.set(http::field::host, url.authority());
  request.set(http::field::user_agent, std::string("lockstep/") + kVersion);
  request.set(http::field::connection, "close");
  if (const auto [error, count] = co_await http::async_write(stream, request, kTuple); error) {
    co_return error;
  }
  beast::flat_buffer buffer;
  const auto [error, count] = co_await http::async_read(stream, buffer, response, kTuple);
  co_return error;
}

}  // namespace

absl::StatusOr<std::string> http_get(const Url& url, std::chrono::milliseconds timeout) {
  asio::io_context io;
  Error error;
  const auto addresses = tcp::resolver(io).resolve(url.host, url.port, error);
  if (error) return failed_precondition("{}: {}", url.text(), error.message());
  beast::tcp_stream stream(io);
  stream.expires_after(timeout);
  Response response;
  response.body_limit(kMaxBodyBytes);
  asio::co_spawn(io, get(url, addresses, stream, response),
                 [&error](const std::exception_ptr&, Error result) { error = result; });
  io.run();
  if (error) {
    return failed_precondition("{}: {}; is a server running there?", url.text(), error.message());
  }
  const unsigned status = response.get().result_int();
  if (status != 200) return failed_precondition("{}: HTTP {}", url.text(), status);
  return std::move(response.get().body());
}

}  // namespace lockstep
