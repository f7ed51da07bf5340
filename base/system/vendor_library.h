// SPDX-License-Identifier: Apache-2.0
// Libraries of a GPU's vendor, opened when they are wanted: nothing is linked, and a machine
// without them runs all that does not need them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct VendorLibrary {
  const char* file;  // "libnccl.so.2".
  // Where the vendor's Python packages have it, from site-packages: "nvidia/nccl/lib".
  std::span<const char* const> package_folders;
  // Of the environment: another file's name, or "off".
  const char* variable;
};

// What dlopen() gave; it is never closed. Or null, and why in one line.
struct OpenedLibrary {
  void* handle = nullptr;
  std::string path;  // The name under which it was found.
  std::string problem;
  bool switched_off = false;  // By the environment.

  template <typename Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
    return function != nullptr;
  }

 private:
  void* symbol(const char* name) const;
};

// What the environment names and nothing else; else what the loader finds, what is in the folders
// of CUDA toolkits, in those of Python's packages.
OpenedLibrary open_library(const VendorLibrary& library);
// This file and no other; "off": none.
OpenedLibrary open_library_file(const std::string& file, const VendorLibrary& library);

// Where else than in the loader's folders open_library() looks, first to last.
std::vector<std::string> places_of(const VendorLibrary& library);

}  // namespace lockstep
