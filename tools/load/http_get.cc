// SPDX-License-Identifier: Apache-2.0
#include "tools/load/http_get.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "base/version.h"

namespace lockstep {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;
using Response = http::response_parser<http::string_body>;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);  // Errors as values.
constexpr uint64_t kMaxBodyBytes = 16 << 20;

void begin(const Url& url, http::request<http::empty_body>* request) {
  *request = {http::verb::get, url.path, 11};
  request->set(http::field::host, url.authority());
  request->set(http::field::user_agent, std::string("lockstep/") + kVersion);
  request->set(http::field::connection, "close");
}

template <typename Stream>
asio::awaitable<Error> exchange(const Url& url, Stream& stream, Response& response) {
  http::request<http::empty_body> request;
  begin(url, &request);
  if (const auto [error, count] = co_await http::async_write(stream, request, kTuple); error) {
    co_return error;
  }
  beast::flat_buffer buffer;
  const auto [error, count] = co_await http::async_read(stream, buffer, response, kTuple);
  co_return error;
}

// The stream's deadline covers the connection, the handshake, the request and the answer.
asio::awaitable<Error> get(const Url& url, const tcp::resolver::results_type& addresses,
                           TlsStream& stream, Response& response) {
  beast::tcp_stream& plain = beast::get_lowest_layer(stream);
  if (const auto [error, address] = co_await plain.async_connect(addresses, kTuple); error) {
    co_return error;
  }
  if (!url.tls) co_return co_await exchange(url, plain, response);
  SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str());
  stream.set_verify_callback(asio::ssl::host_name_verification(url.host));
  const auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client, kTuple);
  if (error) co_return error;
  co_return co_await exchange(url, stream, response);
}

absl::Status load(const TlsFiles& files, asio::ssl::context* context) {
  const auto checked = [](const char* what, const std::string& path, Error error) {
    return error ? invalid_argument("{} {}: {}", what, path, error.message()) : absl::OkStatus();
  };
  Error error;
  if (files.ca.empty()) {
    context->set_default_verify_paths(error);
  } else {
    context->load_verify_file(files.ca, error);
  }
  RETURN_IF_ERROR(checked("the authority", files.ca, error));
  context->set_verify_mode(asio::ssl::verify_peer);
  if (files.cert.empty()) return absl::OkStatus();
  context->use_certificate_chain_file(files.cert, error);
  RETURN_IF_ERROR(checked("the certificate", files.cert, error));
  context->use_private_key_file(files.key, asio::ssl::context::pem, error);
  return checked("the key", files.key, error);
}

}  // namespace

absl::StatusOr<std::string> http_get(const Url& url, std::chrono::milliseconds timeout,
                                     const TlsFiles& tls) {
  asio::io_context io;
  asio::ssl::context context(asio::ssl::context::tls_client);
  if (url.tls) RETURN_IF_ERROR(load(tls, &context));
  Error error;
  const auto addresses = tcp::resolver(io).resolve(url.host, url.port, error);
  if (error) return failed_precondition("{}: {}", url.text(), error.message());
  TlsStream stream(io, context);
  beast::get_lowest_layer(stream).expires_after(timeout);
  Response response;
  response.body_limit(kMaxBodyBytes);
  asio::co_spawn(io, get(url, addresses, stream, response),
                 [&error](const std::exception_ptr&, Error result) { error = result; });
  io.run();
  if (error) {
    return failed_precondition(
        "{}: {}; is a server running there, {}?", url.text(), error.message(),
        url.tls ? "with a certificate of this authority" : "and without TLS");
  }
  const unsigned status = response.get().result_int();
  if (status != 200) return failed_precondition("{}: HTTP {}", url.text(), status);
  return std::move(response.get().body());
}

}  // namespace lockstep
