// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/budget.h"

namespace lockstep::jinja {

void Budget::work(int64_t count, int64_t units_each) {
  const int64_t left = limits_.steps * kUnitsPerStep - units_;
  if (count > left / units_each) {
    units_ = limits_.steps * kUnitsPerStep;
    fail(resource_exhausted("the template takes more than {} steps", limits_.steps));
    return;
  }
  units_ += count * units_each;
}

absl::Status Budget::check_text(size_t bytes) {
  if (bytes > static_cast<size_t>(limits_.text_bytes)) {
    fail(resource_exhausted("the template makes a text of more than {} bytes", limits_.text_bytes));
  }
  return error_;
}

void Budget::take(int64_t bytes) {
  live_bytes_ += bytes;
  if (live_bytes_ > limits_.memory_bytes) {
    fail(resource_exhausted("the template's values take more than {} bytes of memory",
                            limits_.memory_bytes));
  }
}

}  // namespace lockstep::jinja
