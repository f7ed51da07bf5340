// SPDX-License-Identifier: Apache-2.0
// Libraries of a GPU's vendor, opened when needed: nothing is linked, so a machine without them
// runs everything that does not need them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct VendorLibrary {
  const char* file;  // "libnccl.so.2".
  // Folders of the vendor's Python packages, from site-packages: "nvidia/nccl/lib".
  std::span<const char* const> package_folders;
  // The environment variable that gives another file's name, or "off".
  const char* variable;
};

// The result of dlopen(), which is never closed; or null and the problem in one line.
struct OpenedLibrary {
  void* handle = nullptr;
  std::string path;  // The name under which it was found.
  std::string problem;
  bool switched_off = false;  // The environment variable is "off".

  template <typename Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
    return function != nullptr;
  }

 private:
  void* symbol(const char* name) const;
};

// Opens the file that the environment names, and no other. If it names none: searches the loader's
// folders, those of CUDA toolkits, then those of Python's packages.
OpenedLibrary open_library(const VendorLibrary& library);
// Opens this file and no other; "off": none.
OpenedLibrary open_library_file(const std::string& file, const VendorLibrary& library);

// The places outside the loader's folders that open_library() searches, in order.
std::vector<std::string> places_of(const VendorLibrary& library);

}  // namespace lockstep
