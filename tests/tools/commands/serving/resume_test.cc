// SPDX-License-Identifier: Apache-2.0
// Resumable streams of `lockstep serve` over real sockets. A test interrupts them and resumes them
// by either API, also with API keys.

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/files/temp_folder.h"
#include "tests/support/network/http_client.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

using Json = nlohmann::json;

Json body_of(uint64_t seed, bool chat) {
  Json body = {{"max_tokens", 12},   {"seed", seed},
               {"stream", true},     {"resumable", true},
               {"ignore_eos", true}, {"stream_options", {{"include_usage", true}}}};
  if (chat) {
    body["messages"] = {{{"role", "user"}, {"content", "Once upon a time"}}};
  } else {
    body["prompt"] = "Once upon a time";
  }
  return body;
}

HttpAnswer call(const Server& server, const std::string& method, const std::string& path,
                const std::string& lines = "", const std::string& body = "") {
  HttpClient client(server.http_address());
  EXPECT_TRUE(client.send(http_request(method, path, lines, body)));
  return client.read(/*no_body=*/method == "DELETE");
}

std::string rest_of(const Server& server, const std::string& id, const std::string& lines = "") {
  const HttpAnswer answer = call(server, "GET", "/v1/streams/" + id, lines);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.whole);
  return answer.body;
}

// The texts of all chunks, joined.
std::string text_of(const std::string& events) {
  std::string text;
  for (size_t at = events.find("data: {"); at != events.npos; at = events.find("data: {", at)) {
    at += 6;
    const Json json = Json::parse(events.substr(at, events.find('\n', at) - at));
    if (json["choices"].empty()) continue;
    const Json& choice = json["choices"][0];
    text +=
        choice.contains("delta") ? choice["delta"].value("content", "") : choice.value("text", "");
  }
  return text;
}

struct Messages {
  std::string text;
  std::vector<int32_t> tokens;
  grpc::Status status;
};
template <typename Reader>
Messages read(Reader& reader) {
  Messages messages;
  for (v1::GenerateResponse response; reader.Read(&response);) {
    messages.text += response.text();
    messages.tokens.insert(messages.tokens.end(), response.token_ids().begin(),
                           response.token_ids().end());
  }
  messages.status = reader.Finish();
  return messages;
}

Messages resume(Server& server, const std::string& id, uint64_t from = 0) {
  grpc::ClientContext context;
  v1::ResumeRequest request;
  request.set_request_id(id);
  request.set_from(from);
  return read(*server.stub().Resume(&context, request));
}

TEST(ResumeOverSocketsTest, AStreamCanBeResumedAfterAnyByte) {
  const Server server;
  std::mt19937_64 random(3);
  SCOPED_TRACE("seed 3");
  for (int i = 0; i < 40; ++i) {
    const std::string id = "cut-" + std::to_string(i);
    const std::string path = i % 2 == 0 ? "/v1/chat/completions" : "/v1/completions";
    std::string received;
    {
      const Socket socket(server.http_address());
      ASSERT_TRUE(socket.send(http_request("POST", path, "X-Request-Id: " + id + "\r\n",
                                           body_of(static_cast<uint64_t>(i), i % 2 == 0).dump())));
      for (const size_t bytes = 1 + random() % 5000; received.size() < bytes;) {
        const std::string more = socket.receive();
        if (more.empty()) break;
        received += more;
        if (received.find("[DONE]") != received.npos) break;
      }
    }
    // The id of the last event that was received completely.
    std::string last;
    for (size_t at = received.find("id: "); at != received.npos;
         at = received.find("id: ", at + 1)) {
      if (received.find("\n\n", at) == received.npos) break;
      last = received.substr(at + 4, received.find('\n', at) - at - 4);
    }
    const std::string uncut = rest_of(server, id);
    const std::string rest =
        rest_of(server, id, last.empty() ? "" : "Last-Event-ID: " + last + "\r\n");
    ASSERT_TRUE(uncut.ends_with(rest)) << i;
    const std::string before = uncut.substr(0, uncut.size() - rest.size());
    EXPECT_TRUE(last.empty() ? before.empty()
                             : before.rfind("id: " + last + "\n") == before.rfind("id: "))
        << i << ": " << last;
    EXPECT_TRUE(uncut.ends_with("data: [DONE]\n\n")) << i;
  }
}

TEST(ResumeOverSocketsTest, EitherApiContinuesAStreamOfTheOther) {
  Server server({"--workers", "2"});
  v1::GenerateRequest request = story(12, 7);
  request.set_resumable(true);
  for (const bool chat : {false, true}) {
    if (chat) {
      request.clear_prompt();
      v1::ChatMessage* message = request.mutable_chat()->add_messages();
      message->set_role("user");
      message->set_content("Once upon a time");
    }
    const std::string by_grpc = chat ? "grpc-chat" : "grpc-text";
    request.set_request_id(by_grpc);
    grpc::ClientContext context;
    const Messages uncut = read(*server.stub().Generate(&context, request));
    ASSERT_TRUE(uncut.status.ok()) << uncut.status.error_message();
    ASSERT_EQ(uncut.tokens.size(), 12u);
    const std::string events = rest_of(server, by_grpc);
    EXPECT_EQ(text_of(events), uncut.text);
    EXPECT_NE(events.find(chat ? "chat.completion.chunk" : "text_completion"), events.npos);
    EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));

    const std::string by_http = chat ? "http-chat" : "http-text";
    const HttpAnswer answer =
        call(server, "POST", chat ? "/v1/chat/completions" : "/v1/completions",
             "X-Request-Id: " + by_http + "\r\n", body_of(7, chat).dump());
    EXPECT_EQ(answer.headers.at("x-request-id"), by_http);
    EXPECT_EQ(text_of(answer.body), uncut.text);
    EXPECT_EQ(resume(server, by_http).tokens, uncut.tokens);
    EXPECT_EQ(resume(server, by_http).text, uncut.text);
    const Messages rest = resume(server, by_http, 5);
    EXPECT_TRUE(std::equal(rest.tokens.rbegin(), rest.tokens.rend(), uncut.tokens.rbegin()));
    EXPECT_EQ(rest.tokens.size(), 7u);
  }
}

TEST(ResumeOverSocketsTest, AnotherKeysStreamIsHiddenAndResumingIsNotARequest) {
  const TempFolder folder;
  std::ofstream(folder.path() / "keys") << "alice sk-alice-0123456789 requests=1\n"
                                           "bob sk-bob-0123456789abc\n";
  const Server server({"--api-keys", folder.path() / "keys"});
  const std::string alice = "Authorization: Bearer sk-alice-0123456789\r\n";
  const std::string bob = "Authorization: Bearer sk-bob-0123456789abc\r\n";
  const std::string name = "X-Request-Id: story\r\n";
  Json body = body_of(1, false);
  body["max_tokens"] = 1'000'000;  // The request must run for a while.
  body["n"] = 16;
  {
    HttpClient dropped(server.http_address());
    EXPECT_TRUE(dropped.send(http_request("POST", "/v1/completions", alice + name, body.dump())));
    EXPECT_TRUE(dropped.read_until("data: "));
  }
  const std::string path = "/v1/streams/story";
  EXPECT_EQ(call(server, "GET", path).status, 401);
  EXPECT_EQ(call(server, "GET", path, bob).status, 404);
  EXPECT_EQ(call(server, "DELETE", path, bob).status, 404);
  EXPECT_EQ(call(server, "POST", "/v1/completions", alice, body.dump()).status, 429)
      << "it runs although no one reads it";
  {
    HttpClient again(server.http_address());
    EXPECT_TRUE(again.send(http_request("GET", path + "?from=0", alice)));
    EXPECT_TRUE(again.read_until("id: 0\n"));
  }
  EXPECT_EQ(call(server, "POST", "/v1/completions", bob + name, body_of(2, false).dump()).status,
            200)
      << "each key has its own names";
  Json plain = body_of(2, false);
  plain.erase("resumable");
  EXPECT_TRUE(call(server, "POST", "/v1/completions", bob, plain.dump()).whole);
  EXPECT_EQ(call(server, "DELETE", path, alice).status, 204);
  EXPECT_NE(rest_of(server, "story", alice).find("\"finish_reason\":\"cancelled\""),
            std::string::npos);
  EXPECT_TRUE(becomes_true([&] {
    return call(server, "POST", "/v1/completions", alice, body_of(3, false).dump()).status == 200;
  }));
}

TEST(ResumeOverSocketsTest, KeptStreamsAreCountedAndExpire) {
  const Server server({"--resume-seconds", "1"});
  const HttpAnswer answer = call(server, "POST", "/v1/completions", "", body_of(1, false).dump());
  EXPECT_EQ(answer.status, 200);
  const std::string path = "/v1/streams/" + answer.headers.at("x-request-id");
  EXPECT_TRUE(becomes_true([&] { return call(server, "GET", path).status == 410; }));
  const std::string metrics = call(server, "GET", "/metrics").body;
  EXPECT_NE(metrics.find("lockstep:kept_streams{model_name=\"demo\"} 0\n"), std::string::npos)
      << metrics;
  EXPECT_NE(metrics.find("lockstep:kept_stream_bytes{model_name=\"demo\"} 0\n"), std::string::npos);
}

TEST(ResumeOverSocketsTest, NoStreamIsResumableWithoutMemoryForIt) {
  Server server({"--resume-bytes", "0"});
  const HttpAnswer answer = call(server, "POST", "/v1/completions", "", body_of(1, false).dump());
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("--resume-bytes 0"), std::string::npos) << answer.body;
  EXPECT_EQ(call(server, "GET", "/v1/streams/x").status, 404);
  v1::GenerateRequest request = story(5, 1);
  EXPECT_TRUE(server.generate(request).status.ok());
  request.set_resumable(true);
  EXPECT_EQ(server.generate(request).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(resume(server, "x").status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(ResumeOverSocketsTest, SigtermLetsADroppedStreamEndBeforeTheServerEnds) {
  Server server;
  Json body = body_of(1, false);
  body["max_tokens"] = 200;
  HttpClient reader(server.http_address());
  {
    HttpClient dropped(server.http_address());
    EXPECT_TRUE(dropped.send(
        http_request("POST", "/v1/completions", "X-Request-Id: story\r\n", body.dump())));
    EXPECT_TRUE(dropped.read_until("data: "));
  }
  EXPECT_TRUE(reader.send(http_request("GET", "/v1/streams/story")));
  EXPECT_TRUE(reader.read_until("id: 0\n"));
  server.process().signal(SIGTERM);
  EXPECT_TRUE(reader.read_until("data: [DONE]"));
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
}

}  // namespace
}  // namespace lockstep::testing
