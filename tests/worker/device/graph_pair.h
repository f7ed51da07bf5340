// SPDX-License-Identifier: Apache-2.0
// Runs a model twice: on devices that capture its steps in CUDA graphs (called graphs here) and
// replay them, and on devices that run kernel by kernel.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tests/support/cluster/in_process_cluster.h"
#include "tests/support/devices/late_device.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/steps.h"
#include "tests/worker/device/counting_device.h"

namespace lockstep {

inline Backend graph_backend(Captures& captures, Backend backend = late_backend()) {
  backend.device = std::make_unique<CountingDevice>(std::move(backend.device), captures);
  backend.graphs = true;
  return backend;
}

// The whole result except the times.
inline std::string text_of(cluster::StepResult result) {
  result.clear_times();
  return result.SerializeAsString();
}

// The devices of ranks with graphs.
struct GraphDevices {
  std::function<Backend()> make = late_backend;
  int without = -1;  // A rank that has no graphs although the others do.
};

// A model whose steps are run twice, with graphs and without. Ranks without graphs meet through the
// host.
class Pair {
 public:
  explicit Pair(InProcessOptions options, const GraphDevices& devices = {}) {
    options.limits.set_page_tokens(16);
    options.limits.set_context(128);
    options.backend = [this, devices] {
      const auto rank = static_cast<int>(captures.size());
      Backend backend = graph_backend(captures.emplace_back(), devices.make());
      backend.graphs = rank != devices.without;
      return backend;
    };
    graphs_ = open(options, graphs_group_);
    options.backend = late_backend;
    direct_ = open(options, direct_group_);
  }
  // Forms a new group with graphs and one without; no rank restarts.
  void regroup() {
    graphs_group_ = graphs_->form({}).value();
    direct_group_ = direct_->form({}).value();
    step_ = 0;
  }
  void run(cluster::Step step) {
    step.set_step(++step_);
    const auto found = graphs_group_->run(step), wanted = direct_group_->run(step);
    ASSERT_EQ(message_of(found.status()), "");
    ASSERT_EQ(message_of(wanted.status()), "");
    for (size_t rank = 0; rank < wanted->size(); ++rank) {
      ASSERT_EQ(text_of((*found)[rank]), text_of((*wanted)[rank])) << "step " << step_;
    }
  }

  // Loses `rank` in a step of the group with graphs. The test must then call regroup().
  void lose(int rank, cluster::Step step) {
    step.set_step(++step_);
    graphs_->fail_next_step(rank);
    EXPECT_EQ(message_of(graphs_group_->run(step).status()), fmt::format("rank {} was lost", rank));
  }

  std::deque<Captures> captures;  // By rank.

 private:
  static std::unique_ptr<InProcessCluster> open(const InProcessOptions& options,
                                                std::unique_ptr<Group>& group) {
    auto cluster = InProcessCluster::open(options);
    EXPECT_EQ(message_of(cluster.status()), "");
    auto formed = (*cluster)->form({});
    EXPECT_EQ(message_of(formed.status()), "");
    group = std::move(formed).value();
    return std::move(cluster).value();
  }

  std::unique_ptr<InProcessCluster> graphs_, direct_;
  std::unique_ptr<Group> graphs_group_, direct_group_;
  uint64_t step_ = 0;
};

// Arbitrary tokens of sequences that begin, grow and begin again.
class Sequences {
 public:
  // Sequence `slot` begins with `rows` tokens, in its own pages, which change each time.
  void begin(cluster::Step& step, int32_t slot, int64_t rows) {
    lengths_[slot] = 0;
    const int32_t first = (2 * slot + 6 * (begun_++ % 3)) % 60;
    add(step, slot, rows, {first, first + 1});
  }
  void grow(cluster::Step& step, int32_t slot) { add(step, slot, 1, {}); }

 private:
  void add(cluster::Step& step, int32_t slot, int64_t rows, const std::vector<int32_t>& pages) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < rows; ++i) tokens.push_back((7 * slot + 5 * next_++) % 97);
    add_rows_in_slot(step, slot, tokens, lengths_[slot], pages);
    cluster::Output& output = *step.mutable_outputs(step.outputs_size() - 1);
    output.set_temperature(0.5f);
    output.set_seed(static_cast<uint64_t>(slot));
    output.set_want_noisy(true);
    output.set_want_raw_sums(slot % 2 == 0);
    lengths_[slot] += rows;
  }
  std::map<int32_t, int64_t> lengths_;
  int32_t next_ = 1;
  int32_t begun_ = 0;
};

// A model with one small layer and random weights.
class SmallModel {
 public:
  explicit SmallModel(int vocab, int64_t intermediate = 16) {
    std::ofstream(folder_.path() / "config.json")
        << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
               "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
               "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
               "intermediate_size": )"
        << intermediate << R"(, "vocab_size": )" << vocab << "}";
  }
  InProcessOptions options(int ranks = 1) const {
    return {.model = folder_.path(), .ranks = ranks, .dtype = "float32", .random_seed = 5};
  }

 private:
  TempFolder folder_;
};

}  // namespace lockstep
