// SPDX-License-Identifier: Apache-2.0
// What was proven on a device, as a file that the next start reads: <key>.lockstep-proof in the
// folder of packed weights. The key is of all that a proof depends on: the GPU, its driver, the
// numeric class with the library's version, this very build, and the program's shapes. A file that
// is not whole, or not this user's, is none. One line of the log says what goes wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/kernel_choice/proof.h"

namespace lockstep {

struct ProofFacts {
  std::string device;         // Name and address.
  std::string driver;         // As cuda_driver_version().
  std::string numeric_class;  // With the chip and the library's version.
  std::string build;          // Kernels of another one are others.
  int64_t most_rows = 0;      // Of a step.
};
// Those of a program on a device, by this build.
ProofFacts proof_facts(const program::Program& program, const Backend& backend);

// A file's contents.
struct ProofRecord {
  ProofFacts facts;
  struct Line {
    std::string shape;  // As text_of() has it.
    Trial trial;        // But for its shape.
    int ends = 0;       // Of processes, while it was tried.
    bool chosen = false;
  };
  std::vector<Line> lines;
};

// One file, of one process at a time: where another one has it open it is read and left alone.
class ProofCache {
 public:
  // "": nothing is kept. `untried`: the shapes and kernels in question.
  ProofCache(const std::string& folder, ProofFacts facts, const Proof& untried);
  ~ProofCache();
  ProofCache(const ProofCache&) = delete;
  ProofCache& operator=(const ProofCache&) = delete;

  // Fills in what is known. A kernel during whose trial the process ended twice is refused.
  void load(Proof* proof);
  // Says that the process may end now.
  void begin(const Trial& next, const Proof& proof);
  void store(const Proof& proof, const std::map<LinearShape, std::string>& chosen);

  const std::string& path() const { return path_; }

 private:
  void write(const ProofRecord& record) const;
  ProofRecord record_of(const Proof& proof) const;

  ProofFacts facts_;
  std::string key_;
  std::string path_;  // "": nothing is kept.
  int lock_ = -1;     // A descriptor; -1: another process has the file.
  std::map<std::pair<std::string, std::string>, int> ends_;  // By shape and kernel.
};

// Of all files in the folder that are whole, by name.
std::vector<ProofRecord> read_proofs(const std::string& folder);

}  // namespace lockstep
