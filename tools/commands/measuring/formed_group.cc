// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/measuring/formed_group.h"

#include <utility>

#include "base/status.h"
#include "tools/terminal.h"

namespace lockstep {

absl::StatusOr<FormedGroup> FormedGroup::form(const Model& model, ServiceOptions options,
                                              Interrupt& interrupt) {
  auto line = std::make_shared<ProgressLine>();
  options.load_progress = [line](int64_t done, int64_t total) {
    line->bar("loading weights", done, total);
  };
  FormedGroup formed;
  ASSIGN_OR_RETURN(formed.host_, ClusterHost::start(&model, options));
  const Interrupt::Actions on_signal =
      interrupt.on_signal([&] { formed.host_->cluster().shutdown(); });
  absl::StatusOr<std::unique_ptr<Group>> group = formed.host_->cluster().form({});
  line->clear();
  if (!group.ok() && interrupt.signalled()) return absl::CancelledError("interrupted");
  RETURN_IF_ERROR(group.status());
  formed.group_ = *std::move(group);
  return formed;
}

FormedGroup::~FormedGroup() {
  if (host_ != nullptr) host_->cluster().shutdown();
}

}  // namespace lockstep
