// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "tools/inspect/layer_groups.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// For one layer: the number of compared values, and the worst of them (null: none).
struct LayerErrors {
  std::string name;
  int64_t compared = 0;
  const Comparison* worst = nullptr;
};

std::vector<LayerErrors> by_layer(const Verification& verification,
                                  const program::Program& program) {
  std::vector<LayerErrors> layers;
  for (const LayerGroup& group : layer_groups(program)) {
    LayerErrors layer{.name = group.name};
    for (const Comparison& one : verification.compared) {
      if (one.instruction < group.first || group.end <= one.instruction) continue;
      ++layer.compared;
      if (layer.worst == nullptr || one.error > layer.worst->error) layer.worst = &one;
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::string where_text(const Comparison& one) {
  const std::string rank = one.rank < 0 ? "" : fmt::format(", made by rank {}", one.rank);
  return fmt::format("row {}, column {}{}: found {:g}, must be {:g}", one.row, one.column, rank,
                     one.found, one.wanted);
}

std::string first_text(const Verification& verification) {
  const Comparison& first = *verification.first;
  std::string text = fmt::format(
      "\nThe first that differs: {}, which makes {}\n"
      "  compared with {}: error {:.1e}\n  {}\n",
      first.op, first.name, first.reference, first.error, where_text(first));
  if (verification.suspects.size() < 2) return text;
  text += "  The reference lacks the values before it, so the cause may also be\n";
  for (const Suspect& suspect : verification.suspects) {
    if (suspect.instruction == first.instruction) continue;
    text += fmt::format("    {} ({})\n", suspect.op, suspect.name);
  }
  return text;
}

Json error_json(double error) { return std::isfinite(error) ? Json(error) : Json("not a number"); }

Json comparison_json(const Comparison& one) {
  return {{"instruction", one.instruction},
          {"operator", one.op},
          {"value", one.name},
          {"reference", one.reference},
          {"error", error_json(one.error)},
          {"differs", one.differs}};
}

Json first_json(const Verification& verification) {
  if (!verification.first) return nullptr;
  const Comparison& first = *verification.first;
  Json json = comparison_json(first);
  json["row"] = first.row;
  json["column"] = first.column;
  json["rank"] = first.rank < 0 ? Json(nullptr) : Json(first.rank);
  json["found"] = error_json(first.found);
  json["wanted"] = error_json(first.wanted);
  json["suspects"] = Json::array();
  for (const Suspect& suspect : verification.suspects) {
    json["suspects"].push_back(
        {{"instruction", suspect.instruction}, {"operator", suspect.op}, {"value", suspect.name}});
  }
  return json;
}

}  // namespace

std::string verify_text(const Verification& verification, const VerifyContext& context) {
  const program::Program& program = *context.program;
  std::string text = fmt::format("{} on {}, {}, {} tokens, compared with {}\n\n", program.model(),
                                 count_of(program.ranks(), "worker"), program.strategy(),
                                 context.tokens, context.reference);
  text += fmt::format("{:<18}  {:>8}  {:>13}  {}\n", "", "compared", "largest error", "at");
  for (const LayerErrors& layer : by_layer(verification, program)) {
    text += fmt::format("{:<18}  {:>8}", layer.name, layer.compared);
    if (layer.worst != nullptr) {
      text += fmt::format("  {:>13.1e}  {}{}", layer.worst->error, layer.worst->name,
                          layer.worst->differs ? "  <- differs" : "");
    }
    text += "\n";
  }
  text += fmt::format("\n{} of {} values were compared; {} within {:g} of the largest element\n",
                      verification.compared.size(), verification.values,
                      verification.first ? "not all are" : "all are", context.tolerance);
  return verification.first ? text + first_text(verification) : text;
}

std::string verify_json(const Verification& verification, const VerifyContext& context) {
  const program::Program& program = *context.program;
  Json json = {{"model", program.model()},
               {"workers", program.ranks()},
               {"strategy", program.strategy()},
               {"tokens", context.tokens},
               {"reference", context.reference},
               {"tolerance", context.tolerance},
               {"values", verification.values},
               {"compared", verification.compared.size()},
               {"differs", verification.first.has_value()},
               {"first", first_json(verification)}};
  json["layers"] = Json::array();
  for (const LayerErrors& layer : by_layer(verification, program)) {
    const Json error = layer.worst == nullptr ? Json(nullptr) : error_json(layer.worst->error);
    json["layers"].push_back(
        {{"name", layer.name}, {"compared", layer.compared}, {"error", error}});
  }
  json["errors"] = Json::array();
  for (const Comparison& one : verification.compared) {
    json["errors"].push_back(comparison_json(one));
  }
  return json.dump() + "\n";
}

}  // namespace lockstep
