// SPDX-License-Identifier: Apache-2.0
// Calls whose name, keys and values are between tags. The function's schema gives the values'
// types.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/output/calls/call_reader.h"
#include "coordinator/output/calls/json_text.h"
#include "coordinator/output/calls/schema_type.h"
#include "coordinator/output/tag_finder.h"

namespace lockstep {

class TaggedCalls final : public CallReader {
 public:
  TaggedCalls(const Format& format, const FunctionTypes* functions);

  State push(char c, OutputSink* sink) override;
  void finish(bool is_cut, OutputSink* sink) override;

 private:
  enum class Place { kBetween, kName, kCall, kKey, kBeforeValue, kValue, kBody };

  State at_text(char c, OutputSink* sink);
  State at_tag(std::string_view tag, OutputSink* sink);
  State end_name(std::string_view tag, OutputSink* sink);
  State at_end(std::string_view tag, OutputSink* sink);
  bool in_value(std::string_view tag, OutputSink* sink);
  void begin_value(OutputSink* sink);
  void add_to_value(std::string_view text, OutputSink* sink);
  void end_value(OutputSink* sink);
  void end_call(OutputSink* sink);

  const Format& format_;
  const FunctionTypes* const functions_;
  TagFinder tags_;
  Place place_ = Place::kBetween;
  bool after_call_ = false;
  std::string head_;  // The text of a name or a key, while it is read.
  std::string name_;
  size_t keys_ = 0;
  JsonSpan body_;  // An object instead of keys and values.
  bool has_body_ = false;

  SchemaType type_;
  bool streams_ = false;  // The value is a string, which is sent as it arrives.
  std::string value_;     // The value, if it is not streamed.
  bool has_value_ = false;
  bool on_lines_ = false;       // The value began with a line break.
  bool line_withheld_ = false;  // A line break that belongs to the value if more text follows.
};

}  // namespace lockstep
