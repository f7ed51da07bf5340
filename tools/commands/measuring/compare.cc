// SPDX-License-Identifier: Apache-2.0
// `lockstep compare`: compares a model in fewer bits with itself in float32, over a text, by the
// Kullback-Leibler divergence of the next token's distribution at every position. Both groups run
// at once and compute the same positions alternately, so no logits are stored.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/engine/step_results.h"
#include "proto/candidates.h"
#include "tools/commands/command.h"
#include "tools/commands/measuring/formed_group.h"
#include "tools/terminal.h"
#include "tools/verify/prompt_step.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxTextBytes = 64 << 20;
// The max number of logits in one step, over all ranks: more would exceed the size of a message.
constexpr int64_t kStepLogits = 8 << 20;

struct CompareFlags {
  RunOptions run;
  std::string text;
  std::vector<std::string> prompts;
  int64_t window = 512;
  int64_t tokens = 0;
  bool json = false;
};

using Ids = std::vector<int32_t>;

// A model with its own workers, for one sequence at a time.
class ModelRunner {
 public:
  static absl::StatusOr<std::unique_ptr<ModelRunner>> start(const CompareFlags& flags,
                                                            const ModelOptions& options,
                                                            Interrupt& interrupt) {
    ASSIGN_OR_RETURN(std::unique_ptr<Model> model, open_model(options));
    ASSIGN_OR_RETURN(ServiceOptions service, flags.run.service_options());
    service.cluster.assignment.set_max_pages(model->pages_of(flags.window));
    ASSIGN_OR_RETURN(FormedGroup group, FormedGroup::form(*model, std::move(service), interrupt));
    return std::unique_ptr<ModelRunner>(new ModelRunner(std::move(model), std::move(group)));
  }

  const Model& model() const { return *model_; }
  int64_t weight_bytes() const { return group_->info().weight_bytes; }

  // Logits [rows, vocab] of positions [first, first + rows) of a window. Earlier calls must have
  // computed all positions before `first`.
  absl::StatusOr<std::vector<float>> run(std::span<const int32_t> window, int64_t first,
                                         int64_t rows) {
    const GroupInfo& info = group_->info();
    cluster::Step step = prompt_step(window, first, rows, info);
    step.set_step(++step_);
    ASSIGN_OR_RETURN(const std::vector<cluster::StepResult> ranks, group_->run(step));
    RETURN_IF_ERROR(check_results(ranks, step, info));
    std::vector<float> logits;
    for (int row = 0; row < rows; ++row) {
      std::vector<std::string_view> slices;
      slices.reserve(ranks.size());
      for (const cluster::StepResult& rank : ranks) slices.push_back(rank.outputs(row).logits());
      const std::vector<float> joined = join_logits(slices);
      if (static_cast<int64_t>(joined.size()) != info.vocab) {
        return absl::InternalError(
            fmt::format("must have {} logits of all ranks, found {}", info.vocab, joined.size()));
      }
      logits.insert(logits.end(), joined.begin(), joined.end());
    }
    return logits;
  }

 private:
  ModelRunner(std::unique_ptr<Model> model, FormedGroup group)
      : model_(std::move(model)), group_(std::move(group)) {}

  const std::unique_ptr<Model> model_;
  const FormedGroup group_;
  uint64_t step_ = 0;  // The number of the last step; 0: the null step.
};

// Sums over all positions, and over those that have a next token.
struct Figures {
  std::vector<double> divergences;  // In nats.
  int64_t same_best = 0;
  int64_t predicted = 0;
  double surprise = 0;  // The sum of -log p of the next token.
  double exact_surprise = 0;
};

// log p of every id; sums in double and in order.
std::vector<double> log_softmax(std::span<const float> logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - max);
  const double normalizer = max + std::log(sum);
  std::vector<double> result;
  for (const float logit : logits) result.push_back(logit - normalizer);
  return result;
}

int64_t best(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

// `next`: the id of the next token; negative: there is none.
void add_position(std::span<const float> exact, std::span<const float> other, int32_t next,
                  Figures& figures) {
  const std::vector<double> p = log_softmax(exact), q = log_softmax(other);
  double divergence = 0;
  for (size_t i = 0; i < p.size(); ++i) divergence += std::exp(p[i]) * (p[i] - q[i]);
  figures.divergences.push_back(std::max(0.0, divergence));
  figures.same_best += best(exact) == best(other);
  if (next < 0) return;
  ++figures.predicted;
  figures.exact_surprise -= p[next];
  figures.surprise -= q[next];
}

absl::Status add_window(std::span<const int32_t> ids, int64_t chunk, ModelRunner& exact,
                        ModelRunner& other, Figures& figures) {
  const auto count = static_cast<int64_t>(ids.size());
  for (int64_t first = 0; first < count; first += chunk) {
    const int64_t rows = std::min(chunk, count - first);
    ASSIGN_OR_RETURN(const std::vector<float> wanted, exact.run(ids, first, rows));
    ASSIGN_OR_RETURN(const std::vector<float> found, other.run(ids, first, rows));
    const size_t vocab = wanted.size() / rows;
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t next = first + row + 1 < count ? ids[first + row + 1] : -1;
      add_position(std::span(wanted).subspan(row * vocab, vocab),
                   std::span(found).subspan(row * vocab, vocab), next, figures);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> read_texts(const CompareFlags& flags) {
  if (flags.text.empty() == flags.prompts.empty()) {
    return invalid_argument("must have one of --text FILE and --prompt TEXT, found {}",
                            flags.text.empty() ? "none" : "both");
  }
  if (flags.text.empty()) return flags.prompts;
  ASSIGN_OR_RETURN(std::string text, read_file(flags.text, kMaxTextBytes));
  return std::vector<std::string>{std::move(text)};
}

// Splits every text into windows. Each begins with the begin token if the tokenizer adds one.
absl::StatusOr<std::vector<Ids>> make_windows(const CompareFlags& flags, const Model& model) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, read_texts(flags));
  if (model.tokenizer() == nullptr) {
    return invalid_argument("{}, which is needed to read a text", model.without_tokenizer());
  }
  Ids before;
  if (model.tokenizer()->bos_id()) {
    ASSIGN_OR_RETURN(const Ids empty, model.tokenizer()->encode(""));
    if (!empty.empty() && empty[0] == *model.tokenizer()->bos_id()) before = {empty[0]};
  }
  const int64_t step = flags.window - static_cast<int64_t>(before.size());
  int64_t left = flags.tokens > 0 ? flags.tokens : INT64_MAX;
  std::vector<Ids> windows;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const Ids ids, model.tokenizer()->encode(text, {.add_special = false}));
    const auto count = static_cast<int64_t>(ids.size());
    for (int64_t begin = 0; begin < count && left > 0; begin += step) {
      const int64_t taken = std::min({step, count - begin, left});
      windows.push_back(before);
      windows.back().insert(windows.back().end(), &ids[begin], &ids[begin] + taken);
      left -= taken;
    }
  }
  if (windows.empty()) return invalid_argument("the text must have at least one token, found none");
  return windows;
}

double share_at(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void report(const CompareFlags& flags, const ModelRunner& exact, const ModelRunner& other,
            Figures& figures) {
  std::vector<double>& sorted = figures.divergences;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  const double predicted = std::max<double>(1, static_cast<double>(figures.predicted));
  const nlohmann::ordered_json json = {
      {"model", other.model().name()},
      {"scheme", other.model().scheme() != nullptr ? other.model().scheme()->name : ""},
      {"dtype", flags.run.model.dtype},
      {"kv_dtype", flags.run.model.kv_dtype},
      {"positions", sorted.size()},
      {"kl_mean", std::accumulate(sorted.begin(), sorted.end(), 0.0) / count},
      {"kl_median", share_at(sorted, 0.5)},
      {"kl_p99", share_at(sorted, 0.99)},
      {"kl_max", sorted.back()},
      {"same_top1", static_cast<double>(figures.same_best) / count},
      {"perplexity", std::exp(figures.surprise / predicted)},
      {"perplexity_float32", std::exp(figures.exact_surprise / predicted)},
      {"weight_bytes", other.weight_bytes()},
      {"weight_bytes_float32", exact.weight_bytes()}};
  if (flags.json) {
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} positions against float32\n", sorted.size());
  fmt::print("KL divergence  mean {:.6f}  median {:.6f}  99 % {:.6f}  largest {:.6f} nats\n",
             json["kl_mean"].get<double>(), json["kl_median"].get<double>(),
             json["kl_p99"].get<double>(), json["kl_max"].get<double>());
  fmt::print("same best token  {:.2f} %\n", 100 * json["same_top1"].get<double>());
  fmt::print("perplexity  {:.4f}, float32 {:.4f}\n", json["perplexity"].get<double>(),
             json["perplexity_float32"].get<double>());
  fmt::print("weights  {}, float32 {}\n", human_bytes(other.weight_bytes()),
             human_bytes(exact.weight_bytes()));
}

absl::Status check_flags(const CompareFlags& flags, const Model& model) {
  const std::string& stored = model.config().scheme;
  if (!stored.empty()) {
    return invalid_argument(
        "{} is already quantized as {}: name the original model and --quantize {}", model.name(),
        stored, stored);
  }
  if (2 <= flags.window && flags.window <= model.max_context()) return absl::OkStatus();
  return invalid_argument("--window: must be 2 to {1}, the model's context, found {0}",
                          flags.window, model.max_context());
}

// The options of `model`, changed so that a step returns the logits of every row.
ModelOptions step_options(const CompareFlags& flags, const Model& model) {
  ModelOptions options = model.options();
  options.max_context = flags.window;
  options.max_rows = std::clamp<int64_t>(kStepLogits / model.config().vocab_size, 1, flags.window);
  options.max_sequences = options.max_rows;  // One output per row.
  return options;
}

absl::Status compare(const CompareFlags& flags, Interrupt& interrupt) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.run.open());
  RETURN_IF_ERROR(check_flags(flags, *model));
  ASSIGN_OR_RETURN(const std::vector<Ids> windows, make_windows(flags, *model));
  const ModelOptions options = step_options(flags, *model);
  ModelOptions exact_options = options;
  exact_options.dtype = "float32";
  exact_options.kv_dtype = "float32";
  exact_options.quantize.clear();
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelRunner> exact,
                   ModelRunner::start(flags, exact_options, interrupt));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelRunner> other,
                   ModelRunner::start(flags, options, interrupt));
  Figures figures;
  ProgressLine line;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (interrupt.signalled()) return absl::CancelledError("interrupted");
    line.spin(fmt::format("window {} of {}", i + 1, windows.size()));
    RETURN_IF_ERROR(add_window(windows[i], options.max_rows, *exact, *other, figures));
  }
  line.clear();
  report(flags, *exact, *other, figures);
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_compare(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<CompareFlags>();
  command->app =
      parent.add_subcommand("compare",
                            "Measures the error that flags such as --quantize and --dtype cause, "
                            "against MODEL in float32:\nKL divergence of the next token's "
                            "distribution, share of equal best tokens, perplexity.");
  CLI::App& app = *command->app;
  add_flags(app, flags->run.model_flags());
  add_flags(app, flags->run.group_flags());
  add_flags(app,
            {{"--text", &flags->text, "A file of text that the model was not trained on",
              FlagValues{.form = "FILE"}},
             {"--prompt", &flags->prompts, "A text in place of the file of --text (repeatable)"},
             {"--window", &flags->window, "The text is cut into sequences of this many tokens"},
             {"--tokens", &flags->tokens, "Max tokens of the text that are used (default: all)",
              FlagValues{.min = 0}},
             {"--json", &flags->json, "One JSON object on one line"}});
  command->run = [flags](Interrupt& interrupt) { return compare(*flags, interrupt); };
  return command;
}

}  // namespace lockstep
