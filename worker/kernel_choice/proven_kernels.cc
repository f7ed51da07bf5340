// SPDX-License-Identifier: Apache-2.0
#include "worker/kernel_choice/proven_kernels.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/status.h"
#include "worker/kernel_choice/proof_cache.h"

namespace lockstep {
namespace {

int count_of(const Proof& proof, Verdict verdict) {
  return static_cast<int>(std::ranges::count(proof.trials, verdict, &Trial::verdict));
}

}  // namespace

absl::StatusOr<Bindings> bind_proven(const program::Program& program, const Backend& backend,
                                     const WeightSource& source, Parallel& parallel,
                                     const ProvenOptions& options,
                                     std::vector<std::string>* kernels) {
  ASSIGN_OR_RETURN(Bindings first, bind(program, backend));
  if (!backend.proof_ms) return first;
  Proof proof = untried(program, backend);
  ProofCache cache(options.folder, proof_facts(program, backend), proof);
  cache.load(&proof);
  const int known = count_of(proof, Verdict::kProven);
  const int64_t begin = options.now_ns();
  const absl::Status status =
      prove(program, backend, source, parallel,
            {.budget_ms = *backend.proof_ms,
             .now_ns = options.now_ns,
             .progress = options.progress,
             .cancelled = options.cancelled,
             .begins = [&](const Trial& next) { cache.begin(next, proof); }},
            &proof);
  ASSIGN_OR_RETURN(const std::vector<const KernelEntry*> chosen,
                   chosen_kernels(program, backend, proof, options.wanted));
  cache.store(proof, by_shape(program, backend, chosen));
  for (const std::string& line : complaints(proof, *backend.proof_ms)) spdlog::warn(line);
  RETURN_IF_ERROR(status);
  spdlog::info("kernels: {} of {} proven, {} of them before, in {:.1f} s",
               count_of(proof, Verdict::kProven), proof.trials.size(), known,
               static_cast<double>(options.now_ns() - begin) * 1e-9);
  *kernels = kernels_text(program, backend, proof, chosen);
  return lockstep::bind(program, backend, chosen);
}

bool computes_as(std::span<const std::string> text, std::span<const std::string> wanted) {
  if (wanted.empty()) return true;
  return std::ranges::equal(text, wanted, [](const std::string& has, const std::string& name) {
    return has.substr(0, has.find(',')) == name;
  });
}

}  // namespace lockstep
