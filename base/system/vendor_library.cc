// SPDX-License-Identifier: Apache-2.0
// Searches Python's packages in the interpreter's order: those of the active environment, those of
// the python3 on PATH, then the user's and the system's.
#include "base/system/vendor_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace lockstep {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The prefix of the first python3 on PATH: "/usr" for /usr/bin/python3. "" if there is none.
std::string python_prefix() {
  const std::string path = environment("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    begin = end + 1;
    if (!folder.ends_with("/bin") || access((folder + "/python3").c_str(), X_OK) != 0) continue;
    return folder.substr(0, folder.size() - std::string_view("/bin").size());
  }
  return "";
}

void add_matches(const std::string& pattern, std::vector<std::string>* found) {
  glob_t matches{};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only patterns with ~ read the table of users.
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    for (size_t i = 0; i < matches.gl_pathc; ++i) found->emplace_back(matches.gl_pathv[i]);
  }
  globfree(&matches);
}

OpenedLibrary open_path(const std::string& path) {
  OpenedLibrary opened{.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), .path = path};
  if (opened.handle != nullptr) return opened;
  const char* error = dlerror();  // The text names the file.
  opened.problem = error == nullptr ? path + ": cannot be opened" : error;
  return opened;
}

}  // namespace

void* OpenedLibrary::symbol(const char* name) const { return dlsym(handle, name); }

std::vector<std::string> places_of(const VendorLibrary& library) {
  const std::string file = std::string("/") + library.file;
  std::vector<std::string> places;
  add_matches("/usr/local/cuda/lib64" + file, &places);
  add_matches("/usr/local/cuda*/targets/*/lib" + file, &places);
  for (const std::string& prefix :
       {environment("VIRTUAL_ENV"), environment("CONDA_PREFIX"), python_prefix(),
        environment("HOME") + "/.local", std::string("/usr/local"), std::string("/usr")}) {
    if (prefix.empty()) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const char* folder : library.package_folders) {
        add_matches(prefix + "/lib/python3*/" + packages + "/" + folder + file, &places);
      }
    }
  }
  return places;
}

OpenedLibrary open_library_file(const std::string& file, const VendorLibrary& library) {
  if (file != "off") return open_path(file);
  return {.problem = std::string("switched off by ") + library.variable, .switched_off = true};
}

OpenedLibrary open_library(const VendorLibrary& library) {
  const std::string named = environment(library.variable);
  if (!named.empty()) return open_library_file(named, library);
  OpenedLibrary opened = open_path(library.file);
  for (const std::string& place : places_of(library)) {
    if (opened.handle != nullptr) break;
    OpenedLibrary next = open_path(place);
    if (next.handle != nullptr) opened = std::move(next);
  }
  return opened;
}

}  // namespace lockstep
