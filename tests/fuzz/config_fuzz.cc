// SPDX-License-Identifier: Apache-2.0
// config.json under every architecture's rules, and the graph that is built of what they accept.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "models/models.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;  // NOLINT: the one function here.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = parse_json(text, "fuzz", {.depth = 16, .values = 10'000});
  if (!json.ok()) return 0;
  for (const Architecture& architecture : architectures()) {
    const auto config = parse_config(*json, "fuzz", architecture.name, architecture.family, 0);
    if (!config.ok()) {
      LOCKSTEP_CHECK(message_of(config.status()).find('\n') == std::string::npos);
      continue;
    }
    if (config->layers > 8) continue;  // More of the same.
    Graph graph;
    architecture.build(graph, *config);
    LOCKSTEP_CHECK(!graph.nodes().empty());
  }
  return 0;
}
