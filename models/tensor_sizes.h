// SPDX-License-Identifier: Apache-2.0
// Sizes that config.json leaves to the tensors.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "models/config.h"

namespace lockstep {

// Adds the keys of Family::sizes that are missing or null, from the checkpoint in the folder.
// Without the checkpoint or the tensor they stay missing: who reads them says so.
void read_tensor_sizes(const std::filesystem::path& folder, const Family& family, Json& json);

}  // namespace lockstep
