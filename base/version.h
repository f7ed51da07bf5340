// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

// LOCKSTEP_VERSION comes from CMake's project().
inline constexpr const char* kVersion = LOCKSTEP_VERSION;

}  // namespace lockstep
