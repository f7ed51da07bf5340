// SPDX-License-Identifier: Apache-2.0
// Calls with a head (a name, perhaps an id), followed by the arguments as a JSON object.
#pragma once

#include <string>

#include "coordinator/output/calls/call_reader.h"
#include "coordinator/output/calls/json_text.h"
#include "coordinator/output/tag_finder.h"

namespace lockstep {

class HeadedCalls final : public CallReader {
 public:
  explicit HeadedCalls(const Format& format);

  State push(char c, OutputSink* sink) override;
  void finish(bool is_cut, OutputSink* sink) override;

 private:
  enum class Place { kBetween, kHead, kId, kBeforeBody, kBody };

  State text_byte(char c, OutputSink* sink);
  State at_tag(std::string_view tag, OutputSink* sink);
  State in_body(char c, OutputSink* sink);
  bool begin_call(OutputSink* sink);
  void end_call(OutputSink* sink);

  const Format& format_;
  TagFinder tags_;
  Place place_ = Place::kBetween;
  bool after_call_ = false;
  std::string head_;  // The text between the call's tag and the tag of arguments.
  std::string tail_;  // The text between the tag of arguments and the object.
  JsonSpan body_;
};

}  // namespace lockstep
