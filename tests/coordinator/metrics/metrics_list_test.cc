// SPDX-License-Identifier: Apache-2.0
// The lists of docs/metrics.md name exactly the metrics that are printed.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "base/source_dir.h"
#include "coordinator/metrics/engine_metrics.h"

namespace lockstep {
namespace {

struct Metric {
  std::string kind;
  std::set<std::string> labels;  // All labels but the model's name.
  bool operator==(const Metric&) const = default;
};
using Metrics = std::map<std::string, Metric>;

void PrintTo(const Metric& metric, std::ostream* out) {
  *out << metric.kind;
  for (const std::string& label : metric.labels) *out << " " << label;
}

std::string piece(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from);
  if (begin == std::string::npos) return "";
  const size_t end = text.find(to, begin + from.size());
  return text.substr(begin + from.size(), end - begin - from.size());
}

// A row of the page is: | `name{label,label}`, `name` | kind | text |
Metrics documented() {
  Metrics metrics;
  std::ifstream page(LOCKSTEP_SOURCE_DIR "/docs/metrics.md");
  for (std::string line; std::getline(page, line) && line != "## Traces";) {
    if (!line.starts_with("| `")) continue;
    const std::string names = piece(line, "| ", " | ");
    for (size_t at = 0; (at = names.find('`', at)) != std::string::npos;) {
      const std::string name = piece(names.substr(at), "`", "`");
      at += name.size() + 2;
      Metric& metric = metrics[name.substr(0, name.find('{'))];
      metric.kind = piece(line, names + " | ", " |");
      std::istringstream labels(piece(name, "{", "}"));
      for (std::string label; std::getline(labels, label, ',');) metric.labels.insert(label);
    }
  }
  return metrics;
}

// The labels between the braces of a series.
std::set<std::string> labels_of(const std::string& series) {
  std::set<std::string> labels;
  std::istringstream parts(piece(series, "{", "}"));
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string label = part.substr(0, part.find('='));
    if (label != "model_name" && label != "le") labels.insert(label);
  }
  return labels;
}

Metrics printed(const std::string& prefix) {
  EngineMetrics metrics(prefix, "story");
  StepReport report = {.step = 1, .sequences = 1, .rows = 1, .sent_ns = 0, .answered_ns = 10};
  report.ranks.resize(1);
  metrics.on_step(report);
  Metrics result;
  std::istringstream text(metrics.text({}));
  std::string name;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# TYPE ")) {
      EXPECT_TRUE(line.starts_with("# TYPE " + prefix + ":")) << line;
      name = piece(line, ":", " ");
      result[name].kind = line.substr(line.rfind(' ') + 1);
    } else if (!line.starts_with("#")) {
      EXPECT_TRUE(line.starts_with(prefix + ":" + name)) << line;
      result[name].labels = labels_of(line);
    }
  }
  return result;
}

TEST(MetricsListTest, TheDocumentHasThePrintedMetricsOfEachPrefix) {
  const Metrics expected = documented();
  EXPECT_GT(expected.size(), 30u);
  EXPECT_EQ(printed("lockstep"), expected);
  EXPECT_EQ(printed("vllm"), expected);
}

}  // namespace
}  // namespace lockstep
