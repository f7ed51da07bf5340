// SPDX-License-Identifier: Apache-2.0
// A library that a test preloads into a process. Its getaddrinfo() never returns, as if no name
// server answered.
#include <netdb.h>
#include <unistd.h>

#include <string_view>

extern "C" int getaddrinfo(const char* /*node*/, const char* /*service*/, const addrinfo* /*hints*/,
                           addrinfo** /*found*/) {
  constexpr std::string_view kLine = "looking up a name\n";
  if (write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) return EAI_FAIL;
  while (true) pause();
}
