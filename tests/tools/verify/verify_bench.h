// SPDX-License-Identifier: Apache-2.0
// A small model on ranks in this process, verified against the test interpreter's results for the
// same prompt: a reference that has every value.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/models.h"
#include "tests/support/cluster/in_process_cluster.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/files/test_data.h"
#include "tests/support/goldens/golden_case.h"
#include "tools/verify/verify.h"

namespace lockstep {

inline const std::vector<int32_t> kVerifyPrompt = {5, 17, 60, 42, 3, 50, 9};

inline TestTensors reference_of(const Graph& model, const naive::Tensors& tensors,
                                const std::vector<int32_t>& ids) {
  naive::Sequence sequence{.tokens = ids, .outputs = {}, .rope_length = std::ssize(ids)};
  for (size_t i = 0; i < ids.size(); ++i) sequence.outputs.push_back(i);
  TestTensors reference;
  for (auto& [name, value] : naive::interpret_values(model, tensors, sequence)) {
    reference[name] = {.dtype = "F32", .shape = value.shape, .values = value.data};
  }
  TestTensor& prompt = reference["tokens"];
  prompt = {.dtype = "I64", .shape = {std::ssize(ids)}, .values = {}};
  prompt.values.assign(ids.begin(), ids.end());
  return reference;
}

class VerifyBench {
 public:
  // `folder` is that of a golden.
  explicit VerifyBench(const std::string& folder, const std::vector<int32_t>& ids = kVerifyPrompt)
      : golden_(load_golden_case(folder)) {
    absl::StatusOr<ModelDescription> model = describe_model(golden_.folder, {}, 0);
    LOCKSTEP_CHECK(model.ok());
    model_ = std::make_unique<ModelDescription>(std::move(*model));
    reference_ = reference_of(model_->graph, golden_.tensors, ids);
  }

  const Graph& model() const { return model_->graph; }
  TestTensors& reference() { return reference_; }

  // Verifies as `lockstep verify` does. `backend` makes each rank's backend, `wrap` may return
  // another group in place of the real one, and a step has at most `rows` tokens.
  Verification verify(int ranks, Strategy strategy, const std::function<Backend()>& backend = {},
                      const std::function<Group*(Group&)>& wrap = {}, int64_t rows = 512) {
    const CompileOptions compile_options = {.workers = std::vector<WorkerFacts>(ranks),
                                            .strategy = strategy};
    InProcessOptions options{.model = golden_.folder,
                             .ranks = ranks,
                             .strategy = strategy,
                             .kv_dtype = DType::kF32,
                             .dtype = "float32",
                             .backend = backend};
    const auto cluster = InProcessCluster::open(options);
    EXPECT_EQ(message_of(cluster.status()), "");
    if (!cluster.ok()) return {};
    const auto group = (*cluster)->form({});
    EXPECT_EQ(message_of(group.status()), "");
    if (!group.ok()) return {};
    const auto parts = value_parts(model(), compile_options);
    LOCKSTEP_CHECK(parts.ok());
    TempFolder folder;
    write_safetensors(folder.path() / "reference.safetensors", reference_);
    const auto reference = Reference::open(folder.path() / "reference.safetensors");
    LOCKSTEP_CHECK(reference.ok());
    Group* const seen = wrap ? wrap(**group) : group->get();
    auto found = lockstep::verify(model(), (*cluster)->programs(), *parts, *reference,
                                  {.tolerance = 2e-4, .rows = rows}, *seen);
    EXPECT_EQ(message_of(found.status()), "");
    return found.ok() ? std::move(*found) : Verification();
  }

 private:
  GoldenCase golden_;
  std::unique_ptr<ModelDescription> model_;
  TestTensors reference_;
};

}  // namespace lockstep
