// SPDX-License-Identifier: Apache-2.0
// Known architectures that are not supported and are refused with a reason.
#pragma once

#include <span>
#include <string_view>

namespace lockstep {

struct RefusedArchitecture {
  std::string_view name;  // In config.json's `architectures`.
  std::string_view because;
};

// The rows live as long as the program.
std::span<const RefusedArchitecture> refused_architectures();

}  // namespace lockstep
