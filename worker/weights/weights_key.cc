// SPDX-License-Identifier: Apache-2.0
// A build that draws, rounds or packs weights differently must not find the files of an earlier
// build, and programmers forget to raise a version. So every packer in use packs a small weight,
// and the key contains the result.
#include "worker/weights/weights_key.h"

#include <openssl/evp.h>

#include <memory>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/threads/thread_pool.h"
#include "proto/handshake.h"
#include "worker/weights/weights.h"

namespace lockstep {
namespace {

using program::Program;
using program::Weight;

// The rows do not fill whole panels; the columns are 11 groups of a quantized row.
constexpr int64_t kProbeRows = 83;
constexpr int64_t kProbeCols = 352;

// One small weight for each packer and type.
absl::StatusOr<std::string> packed_probes(const Program& program, const Bindings& bindings) {
  Program probes;
  Bindings packing;
  std::set<std::pair<const KernelEntry*, int>> seen;
  for (int i = 0; i < program.weights_size(); ++i) {
    const Weight& weight = program.weights(i);
    const KernelEntry* packer = bindings.packers[i];
    if (packer == nullptr || !seen.insert({packer, weight.dtype()}).second) continue;
    Weight& probe = *probes.add_weights();
    probe.set_name("probe");
    probe.set_role(weight.role());
    probe.set_dtype(weight.dtype());
    probe.set_rows(kProbeRows);
    probe.set_cols(kProbeCols);
    program::Piece& piece = *probe.add_pieces();
    piece.set_source("probe");
    piece.add_source_shape(kProbeRows);
    piece.add_source_shape(kProbeCols);
    piece.set_row_end(kProbeRows);
    piece.set_col_end(kProbeCols);
    packing.packers.push_back(packer);
    packing.used.push_back(true);
  }
  ThreadPool one(1);
  const std::unique_ptr<Device> device = host_device();
  ASSIGN_OR_RETURN(const Weights packed,
                   Weights::load(probes, packing, plan_weights(probes, packing),
                                 WeightSource(RandomWeights(0)), *device, one, {}));
  const std::span<const std::byte> bytes = packed.contents();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

std::string sha256(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  LOCKSTEP_CHECK(EVP_Digest(text.data(), text.size(), digest, &bytes, EVP_sha256(), nullptr) == 1);
  return to_hex({reinterpret_cast<const char*>(digest), bytes});
}

absl::StatusOr<std::string> weights_key(const Program& program, const Bindings& bindings,
                                        const SourceMark& source) {
  // Every part is preceded by its length, so that no two lists of parts give the same text.
  std::string text;
  const auto add = [&text](const std::string& part) {
    text += fmt::format("{}:", part.size());
    text += part;
  };
  add(fmt::format("packing {}", kPackingVersion));
  add(source.contents);
  add(source.written_at);
  for (int i = 0; i < program.weights_size(); ++i) {
    if (!bindings.used[i]) continue;
    const KernelEntry* packer = bindings.packers[i];
    add(packer != nullptr ? packer->name : "rows");
    add(program.weights(i).SerializeAsString());
  }
  ASSIGN_OR_RETURN(const std::string probes, packed_probes(program, bindings));
  add(probes);
  return sha256(text);
}

}  // namespace lockstep
