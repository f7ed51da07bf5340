// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/event_writer.h"

#include <utility>

#include "coordinator/openai/answers/chunk_writer.h"
#include "coordinator/openai/answers/response_writer.h"

namespace lockstep::openai {

std::unique_ptr<EventWriter> make_writer(std::shared_ptr<const AnswerFacts> facts) {
  if (facts->endpoint == kResponses) return std::make_unique<ResponseWriter>(std::move(facts));
  return std::make_unique<ChunkWriter>(std::move(facts));
}

}  // namespace lockstep::openai
