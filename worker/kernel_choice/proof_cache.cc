// SPDX-License-Identifier: Apache-2.0
// The file has one line with magic, version, key and checksum, then JSON. It is written under
// another name and then renamed. A kernel may kill the process, which then cannot report it. So the
// file records the start of each trial, and the next process counts the trials that were started
// and not ended. A kernel is refused only after two such trials, because a user may have ended the
// process during the first one.
#include "worker/kernel_choice/proof_cache.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/json.h"
#include "base/numbers/crc32c.h"
#include "base/status.h"
#include "base/system/file.h"
#include "proto/handshake.h"
#include "worker/weights/weights_key.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProofMagic = "lockstep-proof 1";
constexpr const char* kProofSuffix = ".lockstep-proof";
constexpr int64_t kMaxProofBytes = int64_t{16} << 20;
constexpr int kMaxEnds = 2;

// The linker's identifier of this binary, which changes with every byte of it; "" if there is none.
std::string build_id() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_NOTE) continue;
          const char* at = std::bit_cast<const char*>(info->dlpi_addr + part.p_vaddr);
          const char* const end = at + part.p_memsz;
          while (end - at >= static_cast<ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof(note));
            const char* const name = at + sizeof(note);
            const char* const data = name + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                std::memcmp(name, "GNU", 4) == 0) {
              *static_cast<std::string*>(to) = to_hex({data, note.n_descsz});
              return 1;
            }
            at = data + (note.n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // The first object is the program.
      },
      &id);
  return id;
}

// The build's identifier; if it has none, size and time of the program's file.
std::string build_text() {
  if (std::string id = build_id(); !id.empty()) return id;
  struct stat info {};
  static_cast<void>(::stat("/proc/self/exe", &info));
  return fmt::format("{}/{}.{}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

std::string key_of(const ProofFacts& facts, const Proof& untried) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    text += fmt::format("{}:{}", part.size(), part);
  };
  for (const std::string* fact :
       {&facts.device, &facts.driver, &facts.numeric_class, &facts.build}) {
    add(*fact);
  }
  add(std::to_string(facts.max_rows));
  for (const Trial& trial : untried.trials) {
    add(text_of(trial.shape));
    add(trial.kernel);
  }
  return sha256(text);
}

const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kProven:
      return "proven";
    case Verdict::kRefused:
      return "refused";
    case Verdict::kUnproven:
      break;
  }
  return "unproven";
}

OrderedJson json_of(const ProofRecord& record) {
  OrderedJson lines = OrderedJson::array();
  for (const ProofRecord::Line& line : record.lines) {
    OrderedJson rows = OrderedJson::array();
    for (const TriedRows& tried : line.trial.rows) {
      // JSON has no infinity.
      rows.push_back({{"rows", tried.rows},
                      {"cols", tried.cols},
                      {"ns", tried.ns},
                      {"error", std::min(tried.error, 1e300)}});
    }
    lines.push_back({{"shape", line.shape},
                     {"kernel", line.trial.kernel},
                     {"verdict", word_of(line.trial.verdict)},
                     {"problem", line.trial.problem},
                     {"ends", line.ends},
                     {"chosen", line.chosen},
                     {"rows", std::move(rows)}});
  }
  return {{"device", record.facts.device},
          {"driver", record.facts.driver},
          {"numeric_class", record.facts.numeric_class},
          {"build", record.facts.build},
          {"most_rows", record.facts.max_rows},
          {"trials", std::move(lines)}};
}

absl::StatusOr<ProofRecord::Line> line_of(const Json& json) {
  ProofRecord::Line line;
  ASSIGN_OR_RETURN(line.shape, get_string(json, "shape"));
  ASSIGN_OR_RETURN(line.trial.kernel, get_string(json, "kernel"));
  ASSIGN_OR_RETURN(const std::string verdict, get_string(json, "verdict"));
  line.trial.verdict = verdict == "proven"    ? Verdict::kProven
                       : verdict == "refused" ? Verdict::kRefused
                                              : Verdict::kUnproven;
  ASSIGN_OR_RETURN(line.trial.problem, get_string(json, "problem"));
  ASSIGN_OR_RETURN(const int64_t ends, get_int(json, "ends"));
  line.ends = static_cast<int>(std::clamp<int64_t>(ends, 0, kMaxEnds));
  ASSIGN_OR_RETURN(line.chosen, get_bool(json, "chosen"));
  for (const Json& tried : json.value("rows", Json::array())) {
    TriedRows rows;
    ASSIGN_OR_RETURN(rows.rows, get_int(tried, "rows"));
    ASSIGN_OR_RETURN(rows.cols, get_int(tried, "cols"));
    ASSIGN_OR_RETURN(rows.ns, get_int(tried, "ns"));
    ASSIGN_OR_RETURN(rows.error, get_double(tried, "error"));
    line.trial.rows.push_back(rows);
  }
  return line;
}

absl::StatusOr<ProofRecord> record_of_json(const std::string& text, const std::string& path) {
  ASSIGN_OR_RETURN(const Json json, parse_json(text, path));
  ProofRecord record;
  ASSIGN_OR_RETURN(record.facts.device, get_string(json, "device"));
  ASSIGN_OR_RETURN(record.facts.driver, get_string(json, "driver"));
  ASSIGN_OR_RETURN(record.facts.numeric_class, get_string(json, "numeric_class"));
  ASSIGN_OR_RETURN(record.facts.build, get_string(json, "build"));
  ASSIGN_OR_RETURN(record.facts.max_rows, get_int(json, "most_rows"));
  for (const Json& one : json.value("trials", Json::array())) {
    ASSIGN_OR_RETURN(record.lines.emplace_back(), line_of(one));
  }
  return record;
}

std::string head_of(const std::string& key, const std::string& body) {
  return fmt::format("{} {} {:08x}\n", kProofMagic, key, crc32c(body.data(), body.size()));
}

absl::StatusOr<ProofRecord> read_record(const std::string& path, const std::string& key) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || info.st_uid != ::geteuid()) {
    return failed_precondition("{}: the file must be this user's own", path);
  }
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxProofBytes));
  const size_t end = std::min(text.find('\n'), text.size() - 1);
  const std::string body = text.empty() ? "" : text.substr(end + 1);
  if (body.empty() || text.substr(0, end + 1) != head_of(key, body)) {
    return failed_precondition("{}: must be a complete file of this version, found another header",
                               path);
  }
  return record_of_json(body, path);
}

}  // namespace

ProofFacts proof_facts(const program::Program& program, const Backend& backend) {
  return {.device = fmt::format("{} {}", backend.device->name(), backend.device->address()),
          .driver = cuda_driver_version(),
          .numeric_class = program.numeric_class(),
          .build = build_text(),
          .max_rows = program.limits().rows()};
}

ProofCache::ProofCache(const std::string& folder, ProofFacts facts, const Proof& untried)
    : facts_(std::move(facts)) {
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);  // The first write reports an error.
  key_ = key_of(facts_, untried);
  path_ = (fs::path(folder) / (key_ + kProofSuffix)).string();
  lock_ = ::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) {
    spdlog::warn("proof of kernels: {} cannot be written: {}; the next start proves them again",
                 path_, error_text(errno));
  }
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(lock_);
  lock_ = -1;
}

ProofCache::~ProofCache() {
  if (lock_ >= 0) ::close(lock_);
}

void ProofCache::load(Proof* proof) {
  std::error_code error;
  if (path_.empty() || !fs::exists(path_, error)) return;
  const absl::StatusOr<ProofRecord> record = read_record(path_, key_);
  if (!record.ok()) {
    spdlog::warn("proof of kernels: {}; they are proven again", message_of(record.status()));
    return;
  }
  for (Trial& trial : proof->trials) {
    const auto known = std::ranges::find_if(record->lines, [&](const ProofRecord::Line& line) {
      return line.shape == text_of(trial.shape) && line.trial.kernel == trial.kernel;
    });
    if (known == record->lines.end()) continue;
    const TrialShape shape = trial.shape;
    trial = known->trial;
    trial.shape = shape;
    if (lock_ < 0 || trial.verdict != Verdict::kUnproven || known->ends == 0) continue;
    ends_[{known->shape, trial.kernel}] = known->ends;
    if (known->ends < kMaxEnds) continue;
    trial.verdict = Verdict::kRefused;
    trial.problem = fmt::format(
        "the process ended {} times while it was tried; delete {} to try "
        "it again",
        kMaxEnds, path_);
  }
}

ProofRecord ProofCache::record_of(const Proof& proof) const {
  ProofRecord record{.facts = facts_, .lines = {}};
  for (const Trial& trial : proof.trials) {
    const auto ends = ends_.find({text_of(trial.shape), trial.kernel});
    const bool counts = trial.verdict == Verdict::kUnproven && ends != ends_.end();
    record.lines.push_back(
        {.shape = text_of(trial.shape), .trial = trial, .ends = counts ? ends->second : 0});
  }
  return record;
}

void ProofCache::begin(const Trial& next, const Proof& proof) {
  if (lock_ < 0) return;
  ProofRecord record = record_of(proof);
  for (ProofRecord::Line& line : record.lines) {
    if (line.shape != text_of(next.shape) || line.trial.kernel != next.kernel) continue;
    ++line.ends;
  }
  write(record);
}

void ProofCache::store(const Proof& proof, const std::map<TrialShape, std::string>& chosen) {
  if (lock_ < 0) return;
  ProofRecord record = record_of(proof);
  for (ProofRecord::Line& line : record.lines) {
    const auto at = chosen.find(line.trial.shape);
    line.chosen = at != chosen.end() && at->second == line.trial.kernel;
  }
  write(record);
}

void ProofCache::write(const ProofRecord& record) const {
  const std::string body = write_json(json_of(record)) + "\n";
  const std::string text = head_of(key_, body), temporary = path_ + ".new";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string all = text + body;
  const auto bytes = static_cast<int64_t>(all.size());
  const bool written = file >= 0 && write_at(file, 0, all.data(), bytes) == bytes;
  if (file >= 0) ::close(file);
  if (written && ::rename(temporary.c_str(), path_.c_str()) == 0) return;
  spdlog::warn("proof of kernels: {} cannot be written: {}; the next start proves them again",
               path_, error_text(errno));
}

std::vector<ProofRecord> read_proofs(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == kProofSuffix) paths.push_back(it->path());
  }
  std::ranges::sort(paths);
  std::vector<ProofRecord> records;
  for (const fs::path& path : paths) {
    auto record = read_record(path.string(), path.stem().string());
    if (record.ok()) records.push_back(*std::move(record));
  }
  return records;
}

}  // namespace lockstep
