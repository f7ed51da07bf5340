// SPDX-License-Identifier: Apache-2.0
// What a stream's events become on the wire: one form per API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/stream.h"

namespace lockstep::openai {

// Server-sent events. What is written depends on what is fixed when the answer begins and on the
// events so far, on nothing else.
class EventWriter {
 public:
  virtual ~EventWriter() = default;

  // Appends what an event becomes; nothing where it says nothing that is shown. `id`: its offset in
  // the stream's log, where there is one stream alone.
  virtual void write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
                     std::string* bytes) = 0;
  // All choices are finished; `id`: how many events there were.
  virtual void end(std::optional<uint64_t> id, std::string* bytes) = 0;
  virtual void fail(const absl::Status& status, std::string* bytes) = 0;
};

}  // namespace lockstep::openai
