// SPDX-License-Identifier: Apache-2.0
// The proof for a device, in a file that the next start reads: <key>.lockstep-proof in the folder
// of packed weights. The key covers all that a proof depends on: the GPU, its driver, the numeric
// class with the library's version, this build, and the program's shapes. A file that is
// incomplete, or another user's, is ignored. An error is only logged, in one line.
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
  std::string driver;         // cuda_driver_version().
  std::string numeric_class;  // With the chip and the library's version.
  std::string build;          // Another build has other kernels.
  int64_t max_rows = 0;       // Rows of a step.
};
// The facts of a program on a device, for this build.
ProofFacts proof_facts(const program::Program& program, const Backend& backend);

// A file's contents.
struct ProofRecord {
  ProofFacts facts;
  struct Line {
    std::string shape;  // The result of text_of().
    Trial trial;        // Without its shape.
    int ends = 0;       // How often the process ended in this trial.
    bool chosen = false;
  };
  std::vector<Line> lines;
};

// One file. One process at a time may write it; the others only read it.
class ProofCache {
 public:
  // `folder` "": nothing is stored. `untried`: the program's shapes and their kernels.
  ProofCache(const std::string& folder, ProofFacts facts, const Proof& untried);
  ~ProofCache();
  ProofCache(const ProofCache&) = delete;
  ProofCache& operator=(const ProofCache&) = delete;

  // Adds the results that the file has. A kernel is refused if the process ended twice in its
  // trial.
  void load(Proof* proof);
  // Records that this trial begins and may end the process.
  void begin(const Trial& next, const Proof& proof);
  void store(const Proof& proof, const std::map<TrialShape, std::string>& chosen);

  const std::string& path() const { return path_; }

 private:
  void write(const ProofRecord& record) const;
  ProofRecord record_of(const Proof& proof) const;

  ProofFacts facts_;
  std::string key_;
  std::string path_;  // "": nothing is stored.
  int lock_ = -1;     // The lock's descriptor; -1: this process must not write the file.
  std::map<std::pair<std::string, std::string>, int> ends_;  // By shape and kernel.
};

// All complete files of the folder, by name.
std::vector<ProofRecord> read_proofs(const std::string& folder);

}  // namespace lockstep
