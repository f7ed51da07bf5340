// SPDX-License-Identifier: Apache-2.0
// The cost of the coordinator: the real engine, cluster port and public port, between ranks that
// answer at once and clients that read at once, all in separate processes.
//   engine_bench [--streams 1,8,64] [--sampling greedy,temperature,top_p,logprobs] [--ranks 2]
//                [--tokens 200] [--compute-us 0] [--model MODEL] [--json]
// gap: the time from the last answer to a step until all ranks have the next step. The ranks
// measure it while all streams draw a token in each step. wire: the same with empty steps and
// without an engine. The goal for gap: 150 us plus 3 us per stream, and 15 us more per stream with
// top_p or logprobs. cpu: CPU time of the coordinator's process per token that clients read. With
// --compute-us ranks answer after this time, like workers that compute. Clients then read the
// previous step's tokens during this time. Without it, clients compete with the engine for CPUs.
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/api/grpc/public_server.h"
#include "coordinator/service.h"
#include "tools/bench/engine/clients.h"
#include "tools/bench/engine/instant_rank.h"

namespace lockstep::bench {
namespace {

constexpr char kToken[] = "bench";
constexpr uint64_t kWireSteps = 2000;

struct Flags {
  std::vector<int> streams = {1, 8, 64};
  std::vector<std::string> sampling = {"greedy", "temperature", "top_p", "logprobs"};
  int ranks = 2;
  int tokens = 200;
  int compute_us = 0;
  std::string model;
  bool json = false;
};

// The shape of Llama 3.2 1B: a large vocabulary, no tokenizer.
constexpr char kConfig[] = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
  "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
  "tie_word_embeddings": true, "hidden_act": "silu", "torch_dtype": "bfloat16",
  "bos_token_id": 128000, "eos_token_id": 128001})";

struct Case {
  int streams = 1;
  std::string sampling;
  // The goal in microseconds.
  double goal() const {
    const bool wide = sampling == "top_p" || sampling == "logprobs";
    return 150 + streams * (wide ? 18.0 : 3.0);
  }
};

struct Result {
  double gap_us = 0;  // Median.
  double gap_p99_us = 0;
  double cpu_us = 0;  // Per token.
  double tokens_per_s = 0;
  int64_t steps = 0;  // The number of measured steps.
};

v1::GenerateRequest request_of(const Case& one, const Flags& flags) {
  v1::GenerateRequest request;
  for (int i = 0; i < 8; ++i) request.mutable_prompt_ids()->add_ids(5 + i);
  request.set_max_tokens(flags.tokens);
  request.set_ignore_eos(true);
  request.set_seed(1);
  request.set_temperature(one.sampling == "greedy" ? 0 : 1);
  request.set_top_p(one.sampling == "top_p" ? 0.9f : 1);
  request.set_top_k(0);
  if (one.sampling == "logprobs") request.set_logprobs(5);
  return request;
}

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A child process. It waits for a line with an address, and then works.
class Child {
 public:
  template <typename Work>
  explicit Child(const Work& work) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[1]);
      std::string address;
      char c = 0;
      while (read(ends[0], &c, 1) == 1 && c != '\n') address += c;
      if (!address.empty()) work(address);
      _exit(0);
    }
    close(ends[0]);
    go_ = ends[1];
  }
  void go(const std::string& address) const {
    const std::string line = address + "\n";
    if (write(go_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  }
  // Whether the process has ended.
  bool ended() const { return waitpid(pid_, nullptr, WNOHANG) != 0; }
  void end() const {
    close(go_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  int go_ = -1;
};

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<int64_t>(share * (values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// Microseconds from each step since `begin_ns` to the next, if both have `outputs` outputs.
std::vector<double> gaps(Timeline& timeline, int ranks, int64_t begin_ns, int outputs) {
  std::vector<double> found;
  for (uint64_t step = 1; step < kMaxSteps; ++step) {
    int64_t answered = 0;
    int64_t received = 0;
    bool counts = true;
    for (int rank = 0; rank < ranks; ++rank) {
      const Timeline::Stamp& before = timeline.at(rank, step - 1);
      const Timeline::Stamp& next = timeline.at(rank, step);
      counts = counts && before.outputs == outputs && next.outputs == outputs &&
               before.received_ns >= begin_ns && next.received_ns > before.answered_ns;
      answered = std::max(answered, before.answered_ns.load());
      received = std::max(received, next.received_ns.load());
    }
    if (counts) found.push_back(static_cast<double>(received - answered) / 1000);
  }
  return found;
}

Result run_case(const Case& one, const Child& client, InferenceService& service,
                const std::string& address, Timeline& timeline) {
  const int64_t tokens = timeline.tokens;
  const double cpu = cpu_seconds();
  const int64_t begin = steady_now_ns();
  client.go(address);
  while (!client.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double seconds = static_cast<double>(steady_now_ns() - begin) / 1e9;
  const double read = static_cast<double>(std::max<int64_t>(1, timeline.tokens - tokens));
  const double used = cpu_seconds() - cpu;
  std::vector<double> found = gaps(timeline, service.options().cluster.workers, begin, one.streams);
  return {.gap_us = percentile(found, 0.5),
          .gap_p99_us = percentile(found, 0.99),
          .cpu_us = used / read * 1e6,
          .tokens_per_s = read / seconds,
          .steps = static_cast<int64_t>(found.size())};
}

// Without an engine: empty steps, as fast as possible.
absl::StatusOr<double> measure_wire(const Model& model, const ServiceOptions& options,
                                    const std::vector<Child>& ranks, Timeline& timeline) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ClusterHost> host, ClusterHost::start(&model, options));
  for (const Child& rank : ranks) rank.go(host->address());
  ASSIGN_OR_RETURN(const std::unique_ptr<Group> group, host->cluster().form({}));
  const int64_t begin = steady_now_ns();
  for (uint64_t step = 1; step <= kWireSteps; ++step) {
    cluster::Step empty;
    empty.set_step(step);
    RETURN_IF_ERROR(group->run(empty).status());
  }
  std::vector<double> found = gaps(timeline, options.cluster.workers, begin, 0);
  return percentile(found, 0.5);
}

std::vector<Child> start_ranks(int count, Timeline& timeline) {
  std::vector<Child> ranks;
  ranks.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    ranks.emplace_back([&timeline](const std::string& address) {
      const absl::Status status = run_instant_rank(address, kToken, timeline);
      if (!status.ok()) fmt::print(stderr, "engine_bench: a rank: {}\n", message_of(status));
    });
  }
  return ranks;
}

void print(const Case& one, const Result& result, const Flags& flags) {
  if (flags.json) {
    const nlohmann::json line = {{"streams", one.streams},
                                 {"sampling", one.sampling},
                                 {"ranks", flags.ranks},
                                 {"compute_us", flags.compute_us},
                                 {"gap_us", result.gap_us},
                                 {"gap_p99_us", result.gap_p99_us},
                                 {"goal_us", one.goal()},
                                 {"cpu_us_per_token", result.cpu_us},
                                 {"tokens_per_s", result.tokens_per_s},
                                 {"steps", result.steps}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print("| {:>7} | {:<11} | {:>9.0f} | {:>9.0f} | {:>7.0f} | {:>6.1f} | {:>8.0f} |\n",
             one.streams, one.sampling, result.gap_us, result.gap_p99_us, one.goal(), result.cpu_us,
             result.tokens_per_s);
}

absl::Status run(const Flags& flags, const std::string& model_path, Timeline& timeline) {
  // All processes are forked before this one has a thread.
  const std::vector<Child> wire_ranks = start_ranks(flags.ranks, timeline);
  const std::vector<Child> ranks = start_ranks(flags.ranks, timeline);
  std::vector<Case> cases;
  std::vector<Child> clients;
  for (const std::string& sampling : flags.sampling) {
    for (const int streams : flags.streams) {
      const Case one{.streams = streams, .sampling = sampling};
      cases.push_back(one);
      clients.emplace_back([&flags, &timeline, one](const std::string& address) {
        run_clients(address, request_of(one, flags), one.streams, timeline);
      });
    }
  }
  const auto serve = [&]() -> absl::Status {
    ModelOptions wanted{.path = model_path, .random_weights = 1};
    ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::open(wanted));
    ServiceOptions options{.cluster = {.workers = flags.ranks}, .server = {.token = kToken}};
    ASSIGN_OR_RETURN(const double wire, measure_wire(*model, options, wire_ranks, timeline));
    ASSIGN_OR_RETURN(const std::unique_ptr<InferenceService> service,
                     InferenceService::start(model.get(), options));
    for (const Child& rank : ranks) rank.go(service->cluster_address());
    RETURN_IF_ERROR(service->wait_ready());
    TaskPool pool({});
    ASSIGN_OR_RETURN(
        const std::unique_ptr<PublicServer> server,
        PublicServer::start(
            {.model = model.get(), .engine = &service->engine(), .workers = flags.ranks}, &pool,
            {.address = "127.0.0.1:0"}));
    if (!flags.json) {
      fmt::print(
          "{}, {} ranks, wire {:.0f} us\n| streams | sampling    | gap p50, us | p99 | goal "
          "| cpu, us per token | tokens/s |\n",
          flags.model.empty() ? "1B shape" : model->name(), flags.ranks, wire);
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      print(cases[i], run_case(cases[i], clients[i], *service, server->address(), timeline), flags);
    }
    return absl::OkStatus();
  };
  const absl::Status status = serve();
  for (const Child& child : wire_ranks) child.end();
  for (const Child& child : ranks) child.end();
  for (const Child& child : clients) child.end();
  if (timeline.failures > 0) return absl::InternalError("calls failed");
  return status;
}

absl::Status main_of(const Flags& flags) {
  if (flags.ranks < 1 || flags.ranks > kMaxRanks) {
    return invalid_argument("--ranks: must be 1 to {1}, found {0}", flags.ranks, kMaxRanks);
  }
  spdlog::set_level(spdlog::level::warn);
  Timeline* timeline = Timeline::share();
  if (timeline == nullptr) return absl::ResourceExhaustedError("no memory to share");
  timeline->compute_us = flags.compute_us;
  if (!flags.model.empty()) return run(flags, flags.model, *timeline);
  char folder[] = "/tmp/engine_bench.XXXXXX";
  if (mkdtemp(folder) == nullptr) return absl::InternalError("no folder in /tmp");
  std::ofstream(std::string(folder) + "/config.json") << kConfig;
  const absl::Status status = run(flags, folder, *timeline);
  std::filesystem::remove_all(folder);
  return status;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  CLI::App app("The coordinator's cost per step and token, with workers that answer at once.");
  lockstep::bench::Flags flags;
  app.add_option("--streams", flags.streams, "Concurrent streams; one case for each")
      ->delimiter(',');
  app.add_option("--sampling", flags.sampling, "greedy, temperature, top_p, logprobs")
      ->delimiter(',');
  app.add_option("--ranks", flags.ranks)->capture_default_str();
  app.add_option("--tokens", flags.tokens, "Tokens of each stream")->capture_default_str();
  app.add_option("--compute-us", flags.compute_us, "The time in us that a rank takes for a step")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--model", flags.model,
                 "The model with the tokenizer and shape (default: a 1B shape, no tokenizer)");
  app.add_flag("--json", flags.json);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = lockstep::bench::main_of(flags);
  if (status.ok()) return 0;
  fmt::print(stderr, "engine_bench: {}\n", lockstep::message_of(status));
  return 1;
}
