// SPDX-License-Identifier: Apache-2.0
// A strict reader of the parts of the Trace Event Format that we write: metadata and complete
// events. It is strict because Perfetto accepts more than other readers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

// True if an object has a key twice, or if the text is not JSON.
inline bool has_repeated_keys(const std::string& text) {
  std::vector<std::set<std::string>> keys;  // The keys of the open objects.
  bool repeated = false;
  using Json = nlohmann::json;
  const Json parsed = Json::parse(
      text,
      [&](int, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::object_start) keys.emplace_back();
        if (event == Json::parse_event_t::object_end) keys.pop_back();
        if (event == Json::parse_event_t::key) {
          repeated |= !keys.back().insert(value.get<std::string>()).second;
        }
        return true;
      },
      /*allow_exceptions=*/false);
  return repeated || parsed.is_discarded();
}

// The nanoseconds of a time in microseconds; -1: it is no number, or below 0.
inline int64_t trace_ns(const nlohmann::json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number()) return -1;
  const double microseconds = found->get<double>();
  return microseconds >= 0 && microseconds < 1e15 ? std::llround(microseconds * 1000) : -1;
}

class TraceReader {
 public:
  // The first fault, with its event; "": none.
  std::string fault_of(const std::string& text) {
    if (has_repeated_keys(text)) return "no JSON, or an object with a key twice";
    const nlohmann::json trace = nlohmann::json::parse(text);
    if (!trace.is_object() || !trace.contains("traceEvents")) return "no traceEvents";
    const std::string unit = trace.value("displayTimeUnit", "");
    if (unit != "ns" && unit != "ms") return "displayTimeUnit: " + unit;
    for (const nlohmann::json& event : trace["traceEvents"]) {
      const std::string fault = take(event);
      if (!fault.empty()) return fault + ": " + event.dump();
    }
    for (const auto& [track, end] : ends_) {
      if (!named_.contains(track)) return "a thread without a name";
      if (!named_.contains({track.first, -1})) return "a process without a name";
    }
    return "";
  }

 private:
  using Track = std::pair<int64_t, int64_t>;  // Process and thread; -1: the process itself.

  std::string take(const nlohmann::json& event) {
    if (!event.is_object()) return "no object";
    for (const char* key : {"ph", "name"}) {
      if (!event.contains(key) || !event[key].is_string() || event[key] == "") {
        return std::string("no text: ") + key;
      }
    }
    for (const char* key : {"pid", "tid"}) {
      if (!event.contains(key) || !event[key].is_number_unsigned()) {
        return std::string("no number: ") + key;
      }
    }
    if (!event.contains("args") || !event["args"].is_object()) return "no args";
    const Track track = {event["pid"].get<int64_t>(), event["tid"].get<int64_t>()};
    if (event["ph"] == "M") return take_name(event, track);
    return event["ph"] == "X" ? take_span(event, track) : "another kind of event";
  }

  std::string take_name(const nlohmann::json& event, const Track& track) {
    const bool of_process = event["name"] == "process_name";
    if (!of_process && event["name"] != "thread_name") return "names something else";
    if (!event["args"].contains("name") || !event["args"]["name"].is_string()) return "no name";
    const bool is_new = named_.insert(of_process ? Track{track.first, -1} : track).second;
    return is_new ? "" : "named twice";
  }

  // The spans of a track must be in order and must not overlap.
  std::string take_span(const nlohmann::json& event, const Track& track) {
    const int64_t begin = trace_ns(event, "ts");
    const int64_t duration = trace_ns(event, "dur");
    if (begin < 0 || duration < 0) return "no time";
    int64_t& end = ends_.try_emplace(track, 0).first->second;
    if (begin < end) return "begins before the end of the previous span";
    end = begin + duration;
    return "";
  }

  std::set<Track> named_;
  std::map<Track, int64_t> ends_;  // The end of the last event of each track.
};

// The events of a trace that has no fault.
inline nlohmann::json read_trace(const std::string& text) {
  EXPECT_EQ(TraceReader().fault_of(text), "") << text.substr(0, 1000);
  return nlohmann::json::parse(text).at("traceEvents");
}

}  // namespace lockstep::testing
