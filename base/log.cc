// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/threads/mutex.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr char kName[] = "lockstep";
constexpr char kFieldsName[] = "lockstep fields";  // The logger of log_fields(); its payload ends
                                                   // with a JSON object.
constexpr std::chrono::seconds kLastLines{1};

void append(std::string_view text, spdlog::memory_buf_t* line) {
  line->append(text.data(), text.data() + text.size());
}

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const auto since = message.time.time_since_epoch();
    const auto ms = std::chrono::duration_cast<milliseconds>(since).count();
    const std::string_view level(spdlog::level::to_string_view(message.level).data());
    fmt::format_to(std::back_inserter(line),
                   R"({{"time":"{:%Y-%m-%dT%H:%M:%S}.{:03}Z","level":"{}","message":)",
                   fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000, level);
    std::string_view text(message.payload.data(), message.payload.size());
    std::string_view fields = "}";
    if (std::string_view(message.logger_name.data(), message.logger_name.size()) == kFieldsName) {
      const size_t object = text.find('{');
      fields = text.substr(object + 1);
      text = text.substr(0, object - 1);
    }
    append(write_json(OrderedJson(std::string(text))), &line);
    if (fields != "}") append(",", &line);
    append(fields, &line);
    append("\n", &line);
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return json_formatter(); }
};

// Writes all of the text, however long it takes. Text is lost if writing fails.
void write_out(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready = {.fd = descriptor, .events = POLLOUT};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

// State that the sink and its thread share. The thread may outlive the sink: the destructor waits
// only a limited time for the reader of the log.
struct Waiting {
  Mutex mutex;
  ConditionVariable changed;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  int64_t bytes ABSL_GUARDED_BY(mutex) = 0;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;
};

// Waits for a line. Returns false at the end.
bool take_line(Waiting& waiting, std::string* line) {
  MutexLock lock(&waiting.mutex);
  while (waiting.lines.empty() && !waiting.stopping) waiting.changed.wait(&waiting.mutex);
  if (waiting.lines.empty()) {
    waiting.ended = true;
    waiting.changed.notify_all();
    return false;
  }
  *line = std::move(waiting.lines.front());
  waiting.lines.pop_front();
  waiting.bytes -= static_cast<int64_t>(line->size());
  return true;
}

// Writes to a copy of the descriptor, because this thread may need the descriptor for longer than
// the descriptor's owner. If the process has no number left for a copy (`copy` is negative), writes
// to the descriptor itself.
void write_lines(Waiting& waiting, int descriptor, int copy) {
  for (std::string line; take_line(waiting, &line);) {
    write_out(copy >= 0 ? copy : descriptor, line);
  }
  if (copy >= 0) ::close(copy);
}

}  // namespace

class BackgroundSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit BackgroundSink(int descriptor)
      : thread_([waiting = waiting_, descriptor, copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)] {
          write_lines(*waiting, descriptor, copy);
        }) {}

  ~BackgroundSink() override {
    bool ended = false;
    {
      MutexLock lock(&waiting_->mutex);
      waiting_->stopping = true;
      waiting_->changed.notify_all();
      const auto deadline = std::chrono::steady_clock::now() + kLastLines;
      while (!waiting_->ended && waiting_->changed.wait_until(&waiting_->mutex, deadline)) {
      }
      ended = waiting_->ended;
    }
    if (ended) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  void push(std::string line) {
    MutexLock lock(&waiting_->mutex);
    waiting_->bytes += static_cast<int64_t>(line.size());
    waiting_->lines.push_back(std::move(line));
    while (waiting_->bytes > kMaxLogBytes && waiting_->lines.size() > 1) {
      waiting_->bytes -= static_cast<int64_t>(waiting_->lines.front().size());
      waiting_->lines.pop_front();
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
    waiting_->changed.notify_all();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const int64_t new_drops = dropped() - reported_drops_;
    if (new_drops > 0 && has_space_for_report()) {
      reported_drops_ += new_drops;
      const std::string text =
          fmt::format("{} log lines were dropped: the log's reader is too slow", new_drops);
      push_formatted({spdlog::string_view_t(kName), spdlog::level::warn, text});
    }
    push_formatted(message);
  }
  void flush_() override {}

 private:
  bool has_space_for_report() {
    MutexLock lock(&waiting_->mutex);
    return waiting_->bytes < kMaxLogBytes / 2;
  }

  void push_formatted(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    push(std::string(formatted.data(), formatted.size()));
  }

  const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
  std::atomic<int64_t> dropped_ = 0;
  int64_t reported_drops_ = 0;  // The base class' lock guards it.
  std::thread thread_;
};

absl::StatusOr<LogFormat> log_format_of(std::string_view name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return invalid_argument("--log-format {}: must be text or json", printable(name));
}

std::unique_ptr<spdlog::formatter> json_formatter() { return std::make_unique<JsonFormatter>(); }

Log::Log(const Options& options) : format_(options.format) {
  if (options.background) {
    sink_ = background_ = std::make_shared<BackgroundSink>(options.descriptor);
  } else {
    sink_ = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  }
  if (format_ == LogFormat::kJson) {
    sink_->set_formatter(json_formatter());
  } else {
    sink_->set_pattern("[%Y-%m-%d %H:%M:%S.%e] [lockstep] [%^%l%$] %v");
  }
  const spdlog::level::level_enum level = spdlog::get_level();
  spdlog::drop(kFieldsName);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(kName, sink_));
  spdlog::register_logger(std::make_shared<spdlog::logger>(kFieldsName, sink_));
  spdlog::set_level(level);
}

Log::~Log() {
  spdlog::drop(kFieldsName);
  const spdlog::level::level_enum level = spdlog::get_level();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      kName, std::make_shared<spdlog::sinks::stderr_color_sink_mt>()));
  spdlog::set_level(level);
}

void Log::announce(const std::string& line) const {
  if (format_ == LogFormat::kText && background_ != nullptr) {
    background_->push(fmt::format("lockstep: {}\n", line));
  } else {
    sink_->log({spdlog::string_view_t(kName), spdlog::level::info, line});
  }
}

int64_t Log::dropped() const { return background_ != nullptr ? background_->dropped() : 0; }

void log_fields(std::string_view message, const OrderedJson& fields) {
  const std::shared_ptr<spdlog::logger> logger = spdlog::get(kFieldsName);
  if (logger == nullptr) return;
  logger->info("{} {}", message, write_json(fields));
}

}  // namespace lockstep
