// SPDX-License-Identifier: Apache-2.0
// A program as a list of calls whose arguments are complete except for the number of rows. A step
// sets these numbers and runs the list: it allocates nothing and looks nothing up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/threads/parallel.h"
#include "operators/schema/schema.h"
#include "proto/program.pb.h"
#include "worker/collectives/collective.h"
#include "worker/host/memory.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/kernels/device_step.h"
#include "worker/progress.h"
#include "worker/steps/made_values.h"
#include "worker/steps/profile.h"
#include "worker/steps/state.h"
#include "worker/steps/step_graphs.h"
#include "worker/weights/weights.h"

namespace lockstep {

// The bytes for the arena, for values that ranks share and for the kernels' scratch, for the
// largest step.
int64_t buffer_bytes(const program::Program& program, const Bindings& bindings, int threads);

// The minimum bytes and operations of each instruction, for a step with the rows of `step`. A view
// costs nothing; a collective costs the bytes that it produces. Nothing is run.
std::vector<KernelCost> instruction_costs(const program::Program& program, const Bindings& bindings,
                                          const StepView& step);

// The times at which an operator of a run began and ended, by steady_now_ns().
struct OperatorTime {
  int instruction = 0;  // Index in the program.
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t wait_ns = 0;  // The part spent waiting for peers.
};

// For one thread at a time. All arguments must outlive it.
class Executor {
 public:
  // The program has passed validate(). Allocates values, scratch and the tables of attributes on
  // the device.
  static absl::StatusOr<std::unique_ptr<Executor>> make(const program::Program& program,
                                                        const Bindings& bindings,
                                                        const Weights& weights, Device& device,
                                                        Parallel& parallel);
  // Call both before the first run, and again when the state or the collective changes.
  void use(const State& state);
  void use(Collective* collective);
  // Every run adds to `instructions` of `progress`, and sets `waiting` while it waits. `progress`
  // may be null.
  void use(Progress* progress) { progress_ = progress != nullptr ? progress : &no_progress_; }

  // From now on each call of a kernel or collective adds 1 to `load` of `progress`. Null: no
  // longer.
  void count_as_loading(Progress* progress) { loading_ = progress; }
  // From now on waits for each kernel right after it is queued, so that a fault of the device is
  // found with the kernel that caused it. Slow.
  void check_each_kernel() { checks_each_ = !device_.is_host(); }
  // From now on decode steps are padded and replayed. Call it before use() of a state and of a
  // collective.
  void use_graphs() { graphs_ = std::make_unique<StepGraphs>(device_, program_); }

  // Runs every instruction in order. Kernels without rows are left out, collectives never. After
  // the run `step.outputs` have the answers. An error comes from the first collective that failed,
  // from a kernel or from the device; values are then undefined. The operators that ran are
  // appended to `times`, which may be null; on a GPU these are the times of queueing. The values
  // that `values` requests are appended to `values`, which may be null.
  absl::Status run(StepView& step, std::vector<OperatorTime>* times = nullptr,
                   MadeValues* values = nullptr);

  // This rank's raw logits for one output of the last run.
  absl::StatusOr<std::string> logits(int64_t output);
  std::string profile() const { return profile_.to_text(); }
  void forget_times() { profile_.clear(); }

 private:
  enum class Kind : uint8_t { kKernel, kAllReduce, kAllGather };
  static constexpr int kFixedRows = -1;  // The row domain of operands that are weights.
  struct Call {
    Kind kind = Kind::kKernel;
    int in_rows[kMaxInputs] = {};  // By operand: an index into row_domains.
    int out_rows[kMaxOutputs] = {};
    int rows = kTokenRows;  // The row domain that decides whether there is anything to do.
    const KernelEntry* kernel = nullptr;
    KernelArgs args;
    std::vector<int64_t> boundaries;  // all_gather: counted in groups of columns stored together.
    bool shared = false;              // all_gather: all ranks see its result.
    Call* norm = nullptr;             // all_reduce: the next call, if that is its add_norm.
    int state = -1;                   // Index in the State; -1: the operator has none.
    int profile_row = 0;
    int instruction = 0;  // Index in the program.
  };

  Executor(Device& device, const program::Program& program);
  friend int64_t buffer_bytes(const program::Program&, const Bindings&, int);
  friend std::vector<KernelCost> instruction_costs(const program::Program&, const Bindings&,
                                                   const StepView&);
  static Call shape(const program::Program& program, const program::Instruction& instruction,
                    const KernelEntry* kernel);
  void connect(const program::Instruction& instruction, const Weights& weights, Call& call);
  void place_values(std::byte* shared);
  void find_norms();
  absl::Status place_tables();
  static void set_rows(const std::vector<int64_t>& domain_rows, Call& call);
  absl::Status run_calls(StepView& step, StepView& on_device, std::vector<OperatorTime>* times,
                         MadeValues* values);
  // Runs an all_reduce. If `norm` is not null and the collective can compute the norm together with
  // the sum, also computes the norm and sets *is_normed.
  absl::Status reduce(const Call& call, Call* norm, bool* is_normed);
  absl::Status gather(const Call& call);
  // Reports that this many calls of the run are completed.
  void completed(int64_t calls);

  Device& device_;
  const program::Program& program_;
  DeviceMemory arena_;
  DeviceMemory shared_;  // Values that ranks share, if their collective has no memory for them.
  DeviceMemory scratch_;
  DeviceMemory tables_;
  DeviceStep device_step_;
  StagingMemory answer_;
  std::vector<Call> calls_;
  std::vector<int64_t> domain_rows_;  // Rows of the running step, by row domain.
  TensorView logits_;
  Collective* collective_ = nullptr;
  bool checks_each_ = false;
  bool shares_ = false;  // Shared values are in the collective's memory, not in shared_.
  Progress no_progress_;
  Progress* progress_ = &no_progress_;
  Progress* loading_ = nullptr;
  std::unique_ptr<StepGraphs> graphs_;  // Null: every step makes every call.
  uint64_t instructions_before_ = 0;    // The counter before this run.
  Profile profile_;
  // Rows of the profile: waiting in collectives, and for a device's queued work.
  int peers_row_ = -1;
  int wait_row_ = -1;
};

}  // namespace lockstep
