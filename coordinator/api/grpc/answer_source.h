// SPDX-License-Identifier: Apache-2.0
// Writes a request's log of events as messages of gRPC.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "coordinator/api/grpc/caller.h"
#include "coordinator/api/served_model.h"
#include "coordinator/http/exchange.h"
#include "coordinator/http/grpc/wire.h"
#include "coordinator/streams/stream_reader.h"
#include "proto/generate.pb.h"

namespace lockstep {

// The trailers have the log's final status. The source and its reader are destroyed when the client
// is gone.
class AnswerSource final : public http::BodySource {
 public:
  // Writes what the reader gives from offset `from` on.
  AnswerSource(const ServedModel& served, Caller caller, std::string request_id,
               std::shared_ptr<StreamReader> reader, size_t from);
  // Abandons the reader if the log has not ended: then the client is gone.
  ~AnswerSource() override;

  State read(std::string* bytes) override;
  http::Headers trailers() const override { return trailers_of(reader_->status()); }
  // Whether the log was closed because too much of it is unread.
  bool is_cut() override;

 private:
  v1::GenerateResponse to_response(const StreamEvent& event, size_t offset) const;
  void add_logprobs(const StreamEvent& event, v1::GenerateResponse* response) const;

  const ServedModel served_;
  const Caller caller_;
  const std::string request_id_;
  const std::shared_ptr<StreamReader> reader_;
  std::deque<StreamEvent> pending_;
  size_t offset_;  // The offset after the events read so far.
  bool is_over_ = false;
};

// Answers the exchange with an AnswerSource, and wakes it when there are new events.
void answer_with(const std::shared_ptr<http::Exchange>& exchange, const ServedModel& served,
                 const Caller& caller, const std::string& request_id,
                 const std::shared_ptr<StreamReader>& reader, size_t from);

}  // namespace lockstep
