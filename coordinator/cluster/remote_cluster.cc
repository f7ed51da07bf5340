// SPDX-License-Identifier: Apache-2.0
// Membership and the forming of groups. Epochs fence the past: whatever does not belong to the
// epoch that was opened last is dropped at the door.
#include "coordinator/cluster/remote_cluster.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>

#include "absl/time/clock.h"
#include "base/numeric_class.h"
#include "base/status.h"
#include "coordinator/cluster/challenges.h"
#include "coordinator/cluster/remote_group.h"
#include "proto/handshake.h"

namespace lockstep {

namespace {

using JoinReactor = grpc::ServerBidiReactor<cluster::WorkerMessage, cluster::CoordinatorMessage>;

// A call of which nothing is read.
class RefusedJoin final : public JoinReactor {
 public:
  explicit RefusedJoin(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

int64_t now_ms() { return absl::GetCurrentTimeNanos() / 1'000'000; }

std::string metadata(const grpc::CallbackServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

grpc::Status to_grpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message_of(status));
}

}  // namespace

class RemoteCluster::Service final : public cluster::Cluster::CallbackService {
 public:
  Service(LinkListener* listener, const std::string& token)
      : listener_(listener), challenges_(token) {}

 private:
  grpc::ServerUnaryReactor* Challenge(grpc::CallbackServerContext* context,
                                      const cluster::ChallengeRequest*,
                                      cluster::ChallengeReply* reply) override {
    absl::MutexLock lock(&mutex_);
    auto opened = challenges_.open(now_ms(), metadata(*context, kNonceMetadata), draw_nonce());
    if (opened.ok()) *reply = *std::move(opened);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(to_grpc(opened.status()));
    return reactor;
  }

  JoinReactor* Join(grpc::CallbackServerContext* context) override {
    absl::MutexLock lock(&mutex_);
    const absl::Status known = challenges_.verify(now_ms(), metadata(*context, kNonceMetadata),
                                                  metadata(*context, kProofMetadata));
    if (known.ok()) return WorkerLink::open(listener_);
    return new RefusedJoin(to_grpc(known));
  }

  LinkListener* const listener_;
  absl::Mutex mutex_;
  Challenges challenges_ ABSL_GUARDED_BY(mutex_);
};

namespace {

constexpr absl::Duration kFormPause = absl::Milliseconds(100);  // Between two tries.

// A name that nobody can guess, for the ranks of one host to meet under.
std::string random_group_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

// Errors that another try would only repeat: the user has to mend something.
bool is_permanent(absl::StatusCode code) {
  return code == absl::StatusCode::kInvalidArgument ||
         code == absl::StatusCode::kFailedPrecondition ||
         code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kNotFound ||
         code == absl::StatusCode::kInternal;
}

// Workers that know their rank get it; the others fill what is left, in the order they came.
std::vector<std::shared_ptr<WorkerLink>> seat(std::vector<std::shared_ptr<WorkerLink>> links,
                                              int ranks) {
  std::vector<std::shared_ptr<WorkerLink>> members(ranks);
  std::vector<std::shared_ptr<WorkerLink>> others;
  for (auto it = links.rbegin(); it != links.rend(); ++it) {  // The newest of two with one rank.
    const int wanted = (*it)->hello->preferred_rank();
    if (wanted >= 0 && wanted < ranks && members[wanted] == nullptr) {
      members[wanted] = *it;
    } else {
      others.push_back(*it);
    }
  }
  for (auto& member : members) {
    if (member != nullptr) continue;
    member = others.back();
    others.pop_back();
  }
  return members;
}

// Ranks that share the memory of `rank` and are about to load their weights.
int loading_beside(const Epoch& epoch, int rank) {
  const cluster::Hello& self = *epoch.member(rank).hello;
  int count = 0;
  for (int peer = 0; peer < epoch.ranks(); ++peer) {
    const cluster::Hello& other = *epoch.member(peer).hello;
    count += !epoch.member(peer).loaded && other.host() == self.host() &&
             other.device() == self.device();
  }
  return count;
}

// The group's bits are those of its workers' kernels, so all must have a kind in common.
absl::Status set_numeric_class(const Epoch& epoch, std::vector<program::Program>& programs) {
  const cluster::Hello& first = *epoch.member(0).hello;
  std::string_view common = first.numeric_class();
  for (int rank = 0; rank < epoch.ranks(); ++rank) {
    const cluster::Hello& other = *epoch.member(rank).hello;
    const auto both = common_class(common, other.numeric_class());
    if (!both) {
      return failed_precondition(
          "rank 0 ({}) computes in numeric class {}, rank {} ({}) in {}: give all workers the same "
          "--device",
          first.device(), first.numeric_class(), rank, other.device(), other.numeric_class());
    }
    common = *both;
  }
  if (common.empty()) return absl::OkStatus();
  for (program::Program& program : programs) program.set_numeric_class(std::string(common));
  return absl::OkStatus();
}

}  // namespace

RemoteCluster::RemoteCluster(RemoteClusterOptions options)
    : options_(std::move(options)), service_(std::make_unique<Service>(this, options_.token)) {}

RemoteCluster::~RemoteCluster() = default;

grpc::Service* RemoteCluster::service() { return service_.get(); }

int RemoteCluster::joined() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(links_.size());
}

void RemoteCluster::shutdown() { give_up(absl::CancelledError("the cluster was shut down")); }

void RemoteCluster::give_up(absl::Status reason) {
  absl::MutexLock lock(&mutex_);
  if (over_.ok()) over_ = reason;
  if (epoch_ != nullptr) epoch_->fail(std::move(reason));
}

// --- What workers say.

void RemoteCluster::on_message(const std::shared_ptr<WorkerLink>& link,
                               cluster::WorkerMessage message) {
  if (!link->hello.has_value()) {
    if (message.has_hello()) return on_hello(link, message.hello());
    return link->close();
  }
  if (message.has_heartbeat()) return;
  absl::MutexLock lock(&mutex_);
  if (epoch_ == nullptr || message.epoch() != epoch_->number()) return;
  const int rank = epoch_->rank_of(link.get());
  if (rank < 0) return;
  if (message.has_failure()) return on_failure(rank, message.failure());
  if (message.has_progress()) return on_progress(rank, message.progress());
  epoch_->deliver(rank, std::move(message));
}

void RemoteCluster::on_hello(const std::shared_ptr<WorkerLink>& link, const cluster::Hello& hello) {
  std::string refusal;
  if (hello.protocol() != kProtocolVersion) {
    refusal = fmt::format("the worker speaks protocol {}, the coordinator {}: install one version",
                          hello.protocol(), kProtocolVersion);
  }
  if (!refusal.empty()) {
    spdlog::warn("refused a worker (pid {}): {}", hello.pid(), refusal);
    cluster::CoordinatorMessage message;
    message.mutable_refusal()->set_reason(refusal);
    link->send(std::move(message));
    return link->close();
  }
  link->hello = hello;
  spdlog::info("a worker joined: pid {}, {}, {}, {} threads", hello.pid(), hello.device(),
               hello.isa(), hello.threads());
  absl::MutexLock lock(&mutex_);
  links_.push_back(link);
}

void RemoteCluster::on_failure(int rank, const cluster::Failure& failure) {
  const auto code = static_cast<absl::StatusCode>(failure.code());
  if (failure.peer_lost() || !is_permanent(code)) {
    epoch_->fail(unavailable("rank {} could not go on: {}", rank, failure.message()));
  } else {
    epoch_->fail(absl::Status(code, failure.message()));
  }
}

void RemoteCluster::on_progress(int rank, const cluster::LoadProgress& progress) {
  loaded_[rank] = progress;
  int64_t done = 0;
  int64_t total = 0;
  for (const cluster::LoadProgress& one : loaded_) {
    done += one.bytes_done();
    total += one.bytes_total();
  }
  if (options_.progress) options_.progress(done, total);
}

void RemoteCluster::on_closed(const std::shared_ptr<WorkerLink>& link) {
  absl::MutexLock lock(&mutex_);
  std::erase(links_, link);
  if (epoch_ == nullptr || !over_.ok()) return;
  const int rank = epoch_->rank_of(link.get());
  if (rank < 0) return;
  spdlog::warn("rank {} (pid {}) was lost", rank, link->hello->pid());
  epoch_->fail(unavailable("rank {} (pid {}) was lost", rank, link->hello->pid()));
}

// --- Forming a group.

bool RemoteCluster::is_over() const { return !over_.ok(); }

bool RemoteCluster::enough_or_over() const {
  return !over_.ok() || static_cast<int>(links_.size()) >= options_.workers;
}

absl::StatusOr<std::shared_ptr<Epoch>> RemoteCluster::open_epoch() {
  absl::MutexLock lock(&mutex_);
  if (epoch_ != nullptr) {
    cluster::CoordinatorMessage message;
    message.mutable_abort()->set_reason("a new group is formed");
    epoch_->broadcast(message);
    epoch_ = nullptr;
  }
  mutex_.Await(absl::Condition(this, &RemoteCluster::enough_or_over));
  if (!over_.ok()) return over_;
  loaded_.assign(options_.workers, {});
  epoch_ = std::make_shared<Epoch>(++epochs_, seat(links_, options_.workers));
  return epoch_;
}

void RemoteCluster::assign(Epoch& epoch, const std::vector<program::Program>& programs) {
  const std::string group = random_group_name();
  for (int rank = 0; rank < epoch.ranks(); ++rank) {
    cluster::CoordinatorMessage message;
    cluster::Assignment& assignment = *message.mutable_assignment();
    *assignment.mutable_program() = programs[rank];
    assignment.set_checkpoint(options_.checkpoint);
    assignment.set_random_weights(options_.random_weights);
    assignment.set_random_seed(options_.random_seed);
    assignment.set_embedding_in_file(options_.embedding_in_file);
    assignment.set_group(group);
    for (int peer = 0; peer < epoch.ranks(); ++peer) {
      assignment.add_hosts(epoch.member(peer).hello->host());
      assignment.add_devices(epoch.member(peer).hello->device());
    }
    assignment.set_kv_memory_bytes(options_.kv_memory_bytes);
    assignment.set_collective_timeout_ms(absl::ToInt64Milliseconds(options_.collective_timeout));
    assignment.set_max_pages(options_.max_pages);
    assignment.set_loading_here(loading_beside(epoch, rank));
    epoch.send(rank, std::move(message));
  }
}

absl::StatusOr<std::unique_ptr<Group>> RemoteCluster::try_form() {
  ASSIGN_OR_RETURN(const std::shared_ptr<Epoch> epoch, open_epoch());
  ASSIGN_OR_RETURN(std::vector<program::Program> programs, options_.compile(epoch->ranks()));
  RETURN_IF_ERROR(set_numeric_class(*epoch, programs));
  assign(*epoch, programs);
  ASSIGN_OR_RETURN(const std::vector<cluster::WorkerMessage> replies,
                   epoch->collect(options_.load_timeout));

  for (int rank = 0; rank < epoch->ranks(); ++rank) epoch->member(rank).loaded = true;
  GroupInfo info = group_info(programs[0]);
  info.epoch = epoch->number();
  info.pages = options_.max_pages;
  for (const cluster::WorkerMessage& reply : replies) {
    info.pages = std::min(info.pages, reply.ready().pages());
    info.weight_bytes += reply.ready().weight_bytes();
  }
  cluster::CoordinatorMessage start;
  start.mutable_start()->set_pages(info.pages);
  epoch->broadcast(start);
  auto group = std::make_unique<RemoteGroup>(info, epoch, options_.step_timeout);
  RETURN_IF_ERROR(group->run(cluster::Step()).status());  // A null step has crossed every rank.
  spdlog::info("epoch {}: {} ranks ready, {} KV pages", info.epoch, info.ranks, info.pages);
  return group;
}

absl::StatusOr<std::unique_ptr<Group>> RemoteCluster::form() {
  while (true) {
    absl::StatusOr<std::unique_ptr<Group>> group = try_form();
    if (group.ok() || group.status().code() != absl::StatusCode::kUnavailable) return group;
    spdlog::warn("no group yet: {}", message_of(group.status()));
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &RemoteCluster::is_over), kFormPause);
  }
}

}  // namespace lockstep
