// SPDX-License-Identifier: Apache-2.0
// gRPC's form of a call over HTTP/2: messages with a prefix of five bytes, and the status in
// trailers. https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/http/exchange.h"
#include "coordinator/http/refusal.h"

namespace lockstep {

inline constexpr size_t kMessagePrefix = 5;

// ---- Requests ----

// OK if a request's head is that of a call whose messages are not compressed.
absl::Status check_call(const http::Request& request);
// The message at the beginning of a call's bytes: removes it from `bytes`. Nullopt: its end has not
// arrived. kUnimplemented: it is compressed. kResourceExhausted: it has more than `max` bytes.
absl::StatusOr<std::optional<std::string_view>> take_message(std::string_view* bytes, size_t max);
// The one message of a whole request. kInternal: the request does not have exactly one. Other
// errors: those of take_message().
absl::StatusOr<std::string_view> message_in(const http::Request& request, size_t max);
// The max number of messages and texts in a message. One of two bytes takes about 140 when it is
// parsed.
inline constexpr int64_t kMaxValues = 1 << 18;
// kInvalidArgument, one line: the bytes are no message of this type, or a text is not UTF-8, or
// there are more than kMaxValues; these are counted before any is parsed.
absl::Status parse(std::string_view bytes, google::protobuf::Message* message);
// The moment at which the call's time is over (steady_now_ms()); 0: it has no limit.
int64_t deadline_ms_of(const http::Request& request);

// ---- Answers ----

// Appends the message and its prefix.
void append_message(const google::protobuf::Message& message, std::string* bytes);
// The trailers of a call that ends with this status.
http::Headers trailers_of(const absl::Status& status);
// The head of an answer with messages.
http::Response answer_head();
// reply() ends the call with one message, fail() with a status and no message.
void reply(const std::shared_ptr<http::Exchange>& exchange,
           const google::protobuf::Message& message);
void fail(const std::shared_ptr<http::Exchange>& exchange, const absl::Status& status);
absl::Status no_such_method();
// The HTTP server's refusal of a request, as the end of a call.
http::Response render_refused_call(const http::Refusal& refusal);

// From now on libprotobuf's messages about bad input are logged at level debug only: parse()
// reports the error to the caller.
void quieten_protobuf();

}  // namespace lockstep
