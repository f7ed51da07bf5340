// SPDX-License-Identifier: Apache-2.0
// The table of times for users.
#include "worker/steps/profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

int Profile::row(const std::string& name) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].name == name) return static_cast<int>(i);
  }
  rows_.push_back({.name = name});
  return static_cast<int>(rows_.size()) - 1;
}

std::string Profile::to_text() const {
  std::vector<Row> rows = rows_;
  std::erase_if(rows, [](const Row& row) { return row.calls == 0; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.ns > b.ns; });
  int64_t total_ns = 0;
  for (const Row& row : rows) total_ns += row.ns;
  std::string text = fmt::format("{} steps, {:.3f} ms in operators\n", steps_,
                                 static_cast<double>(total_ns) / 1e6);
  text += fmt::format("{:<28} {:>9} {:>12} {:>6} {:>9} {:>9}\n", "kernel", "calls", "ms", "%",
                      "GB/s", "GFLOP/s");
  for (const Row& row : rows) {
    const double ns = static_cast<double>(std::max<int64_t>(row.ns, 1));
    text += fmt::format("{:<28} {:>9} {:>12.3f} {:>6.1f} {:>9.2f} {:>9.2f}\n", row.name, row.calls,
                        ns / 1e6, 100 * ns / static_cast<double>(std::max<int64_t>(total_ns, 1)),
                        static_cast<double>(row.bytes) / ns, static_cast<double>(row.flops) / ns);
  }
  return text;
}

}  // namespace lockstep
