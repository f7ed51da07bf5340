// SPDX-License-Identifier: Apache-2.0
// The text of a config.json, read as describe_model() reads it, under the rules of the architecture
// that it names. An accepted text becomes a graph; a refusal is an error of one line.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "models/architecture.h"
#include "models/config/python_json.h"
#include "models/config/wrappers.h"

namespace {

int refused(const absl::Status& status) {
  LOCKSTEP_CHECK(lockstep::message_of(status).find('\n') == std::string::npos);
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;  // The entry point must not be in the namespace.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto json = parse_python_json(text, "fuzz", {.depth = 16, .values = 10'000});
  if (!json.ok()) return refused(json.status());
  const auto part = unwrap_text(*json);
  if (!part.ok()) return refused(part.status());
  const auto architecture = find_architecture(*json);
  if (!architecture.ok()) return refused(architecture.status());
  const auto model =
      read_model(**architecture, *json, {.object = part->object, .beside = part->beside}, 0);
  if (!model.ok()) return refused(model.status());
  if (model->config.layers > 8) return 0;  // More layers test nothing new.
  Graph graph;
  build(graph, model->model);
  LOCKSTEP_CHECK(!graph.nodes().empty());
  return 0;
}
