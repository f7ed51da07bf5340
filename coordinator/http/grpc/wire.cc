// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/grpc/wire.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format_lite.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/system/clock.h"

namespace lockstep {
namespace {

constexpr char kContentType[] = "application/grpc";
constexpr size_t kMaxStatusText = 4096;  // Clients limit the size of all trailers.

uint32_t big_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

// Takes the messages, texts and unknown fields in `bytes` from *left. False: there are more.
// `depth`: that of nested messages to look into. Bytes that are no message of this type count up to
// the first error.
bool fits(std::string_view bytes, const google::protobuf::Descriptor& type, int depth,
          int64_t* left) {
  using WireFormat = google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  while (const uint32_t tag = input.ReadTag()) {
    const auto* field = type.FindFieldByNumber(WireFormat::GetTagFieldNumber(tag));
    if (WireFormat::GetTagWireType(tag) != WireFormat::WIRETYPE_LENGTH_DELIMITED) {
      const auto begin = input.CurrentPosition();
      if (!WireFormat::SkipField(&input, tag)) return true;
      // A group may have one more for every two of its bytes.
      if (field == nullptr) *left -= 1 + (input.CurrentPosition() - begin) / 2;
      if (*left < 0) return false;
      continue;
    }
    uint32_t size = 0;
    if (!input.ReadVarint32(&size)) return true;
    const auto begin = static_cast<size_t>(input.CurrentPosition());
    if (size > bytes.size() - begin || !input.Skip(static_cast<int>(size))) return true;
    if (field != nullptr && field->is_packable()) continue;
    if (--*left < 0) return false;
    if (field == nullptr || field->message_type() == nullptr || depth == 0) continue;
    if (!fits(bytes.substr(begin, size), *field->message_type(), depth - 1, left)) return false;
  }
  return true;
}

// Percent-encoded, as gRPC's protocol says for grpc-message.
std::string encoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text.substr(0, kMaxStatusText)) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= ' ' && byte <= '~' && c != '%') {
      result += c;
    } else {
      result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result;
}

absl::StatusCode code_of(int http_status) {
  switch (http_status) {
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 408:
      return absl::StatusCode::kDeadlineExceeded;
    case 413:
    case 429:
    case 431:
    case 503:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

// ---- Requests ----

absl::Status check_call(const http::Request& request) {
  if (request.method != "POST" || !request.header("content-type").starts_with(kContentType)) {
    return invalid_argument("the request: must be a call of gRPC (POST with content-type {})",
                            kContentType);
  }
  const std::string_view encoding = request.header("grpc-encoding");
  if (encoding.empty() || encoding == "identity") return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("grpc-encoding: must be identity, found {}", printable(encoding)));
}

absl::StatusOr<std::optional<std::string_view>> take_message(std::string_view* bytes, size_t max) {
  if (bytes->size() < kMessagePrefix) return std::nullopt;
  if ((*bytes)[0] != 0) return absl::UnimplementedError("a message: must not be compressed");
  const size_t size = big_endian(bytes->substr(1, 4));
  if (size > max) {
    return resource_exhausted("a message: must have at most {} bytes, found {}", max, size);
  }
  if (bytes->size() - kMessagePrefix < size) return std::nullopt;
  const std::string_view message = bytes->substr(kMessagePrefix, size);
  bytes->remove_prefix(kMessagePrefix + size);
  return message;
}

absl::StatusOr<std::string_view> message_in(const http::Request& request, size_t max) {
  std::string_view bytes = request.body;
  ASSIGN_OR_RETURN(const std::optional<std::string_view> message, take_message(&bytes, max));
  if (message.has_value() && bytes.empty()) return *message;
  return absl::InternalError("the call must have one message, found another number");
}

absl::Status parse(std::string_view bytes, google::protobuf::Message* message) {
  constexpr int kDepth = 16;
  int64_t left = kMaxValues;
  if (!fits(bytes, *message->GetDescriptor(), kDepth, &left)) {
    return invalid_argument("{}: must have at most {} messages and texts, found more",
                            message->GetDescriptor()->name(), kMaxValues);
  }
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return invalid_argument(
      "{}: must be a protobuf message of {} with text in UTF-8, found {} bytes that are not one",
      message->GetDescriptor()->name(), message->GetDescriptor()->file()->package(), bytes.size());
}

// "grpc-timeout: 100m": up to eight digits and a unit.
int64_t deadline_ms_of(const http::Request& request) {
  const std::string_view timeout = request.header("grpc-timeout");
  if (timeout.size() < 2 || timeout.size() > 9) return 0;
  uint32_t amount = 0;
  const char* const unit_at = &timeout.back();
  const auto [end, error] = std::from_chars(timeout.data(), unit_at, amount);
  if (error != std::errc() || end != unit_at) return 0;
  constexpr std::pair<char, double> kUnitsMs[] = {{'H', 3.6e6}, {'M', 6e4},  {'S', 1e3},
                                                  {'m', 1},     {'u', 1e-3}, {'n', 1e-6}};
  constexpr double kForeverMs = 365 * 24 * 3.6e6;
  for (const auto& [unit, unit_ms] : kUnitsMs) {
    const double left_ms = amount * unit_ms;
    if (*unit_at != unit || left_ms > kForeverMs) continue;
    return std::max<int64_t>(steady_now_ms() + static_cast<int64_t>(left_ms), 1);
  }
  return 0;
}

// ---- Answers ----

void append_message(const google::protobuf::Message& message, std::string* bytes) {
  const size_t size = message.ByteSizeLong();
  const size_t begin = bytes->size();
  bytes->resize(begin + kMessagePrefix + size);
  char* const prefix = bytes->data() + begin;
  prefix[0] = 0;  // Not compressed.
  for (int i = 0; i < 4; ++i) prefix[1 + i] = static_cast<char>(size >> (24 - 8 * i) & 0xff);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(prefix + kMessagePrefix));
}

http::Headers trailers_of(const absl::Status& status) {
  http::Headers trailers = {{"grpc-status", std::to_string(static_cast<int>(status.code()))}};
  if (!status.ok()) trailers.emplace_back("grpc-message", encoded(message_of(status)));
  return trailers;
}

http::Response answer_head() {
  return {.status = 200,
          .headers = {{"content-type", kContentType}, {"grpc-accept-encoding", "identity"}},
          .body = "",
          .trailers = {}};
}

void reply(const std::shared_ptr<http::Exchange>& exchange,
           const google::protobuf::Message& message) {
  http::Response response = answer_head();
  append_message(message, &response.body);
  response.trailers = trailers_of(absl::OkStatus());
  exchange->respond(std::move(response));
}

void fail(const std::shared_ptr<http::Exchange>& exchange, const absl::Status& status) {
  http::Response response = answer_head();
  for (auto& trailer : trailers_of(status)) response.headers.push_back(std::move(trailer));
  exchange->respond(std::move(response));
}

absl::Status no_such_method() { return absl::UnimplementedError("this server has no such method"); }

http::Response render_refused_call(const http::Refusal& refusal) {
  http::Response response = answer_head();
  for (auto& trailer : trailers_of(absl::Status(code_of(refusal.status), refusal.message))) {
    response.headers.push_back(std::move(trailer));
  }
  return response;
}

void quieten_protobuf() {
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string& message) {
        spdlog::debug("protobuf: {}", message);
      });
}

}  // namespace lockstep
