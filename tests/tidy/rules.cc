// SPDX-License-Identifier: Apache-2.0
// Bad examples are split into two strings where a rule would otherwise find them in this file.
#include "tests/tidy/rules.h"

#include <algorithm>
#include <cctype>

namespace lockstep::testing {
namespace {

constexpr size_t kFileLines = 600;
constexpr size_t kHeaderLines = 150;
constexpr size_t kFunctionLines = 70;
constexpr size_t kColumns = 100;

std::string repeat(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::vector<Finding> has_licence(const SourceFile& file) {
  if (!file.has_extension({".h", ".cc", ".cu", ".cuh", ".py", ".sh"})) return {};
  const size_t at = !file.lines.empty() && file.lines[0].starts_with("#!") ? 1 : 0;
  const std::string mark = file.has_extension({".py", ".sh"}) ? "#" : "//";
  if (at < file.lines.size() && file.lines[at] == mark + " SPDX-License-Identifier: Apache-2.0") {
    return {};
  }
  return {{at + 1, "the SPDX line is missing"}};
}

std::vector<Finding> file_is_short(const SourceFile& file) {
  // A family's file may be long: it has the family's whole config and graph.
  if (!file.is_code() || file.path.starts_with("models/families/")) return {};
  const size_t max = file.is_header() ? kHeaderLines : kFileLines;
  if (file.lines.size() <= max) return {};
  return {{file.lines.size(), "more than " + std::to_string(max) + " lines"}};
}

size_t columns_of(const std::string& line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // The first byte of a UTF-8 character.
  }));
}

std::vector<Finding> lines_are_short(const SourceFile& file) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < file.lines.size() && file.is_code(); ++i) {
    const size_t columns = columns_of(file.lines[i]);
    if (columns > kColumns) findings.push_back({i + 1, std::to_string(columns) + " columns"});
  }
  return findings;
}

// Checks all lines of a page except tables, links and code, which Markdown cannot wrap.
std::vector<Finding> prose_is_short(const SourceFile& file) {
  std::vector<Finding> findings;
  bool code = false;
  for (size_t i = 0; i < file.lines.size() && file.has_extension({".md"}); ++i) {
    const std::string& line = file.lines[i];
    if (line.starts_with("```")) code = !code;
    if (code || line.starts_with("    ") || line.starts_with("|") ||
        line.find("](") != std::string::npos) {
      continue;
    }
    const size_t columns = columns_of(line);
    if (columns > kColumns) findings.push_back({i + 1, std::to_string(columns) + " columns"});
  }
  return findings;
}

// In code formatted by clang-format, a function's first line has a word or an attribute at column
// 0, and its last line is only `}`. Namespaces and structs end with more.
std::vector<Finding> functions_are_short(const SourceFile& file) {
  std::vector<Finding> findings;
  size_t begin = 0;
  for (size_t i = 0; i < file.lines.size() && file.is_cpp(); ++i) {
    const std::string& line = file.lines[i];
    if (line == "}") {
      if (i - begin + 1 > kFunctionLines) {
        findings.push_back({begin + 1, std::to_string(i - begin + 1) + " lines in a function"});
      }
    } else if (!line.empty() &&
               (std::string_view("_~[").find(line[0]) != std::string_view::npos ||
                std::isalpha(line[0]) != 0) &&
               !line.ends_with(':')) {  // A label or `public:` begins no function.
      begin = i;
    }
  }
  return findings;
}

std::vector<Finding> header_is_guarded(const SourceFile& file) {
  if (!file.is_header() || std::count(file.lines.begin(), file.lines.end(), "#pragma once") == 1) {
    return {};
  }
  return {{1, "#pragma once is missing"}};
}

std::vector<Finding> instruction_sets_stay_in_vec(const SourceFile& file) {
  std::vector<Finding> findings;
  if (file.path.starts_with("worker/kernels/cpu/vector/vec")) return {};
  for (size_t i = 0; i < file.lines.size() && file.is_cpp(); ++i) {
    if (code_of(file.lines[i]).find("__AVX") != std::string::npos) {
      findings.push_back({i + 1, "uses __AVX: only worker/kernels/cpu/vector/vec*.h may"});
    }
  }
  return findings;
}

const Layer* layer_of(std::string_view path) {
  const Layer* found = nullptr;
  for (const Layer& layer : layers()) {
    const std::string_view folder = layer.folder;
    if (path.starts_with(folder) && path.substr(folder.size()).starts_with("/") &&
        (found == nullptr || folder.size() > std::string_view(found->folder).size())) {
      found = &layer;
    }
  }
  return found;
}

std::vector<Finding> includes_follow_layers(const SourceFile& file) {
  std::vector<Finding> findings;
  const Layer* from = layer_of(file.path);
  for (size_t i = 0; i < file.lines.size() && file.is_cpp(); ++i) {
    const std::string name = included_name(file.lines[i]);
    const Layer* to = layer_of(name);
    if (to == nullptr || to == from) continue;  // A system header or a header of its own layer.
    if (from == nullptr || std::count(from->may_include.begin(), from->may_include.end(),
                                      std::string(to->folder)) == 0) {
      findings.push_back({i + 1, "may not include " + name});
    }
  }
  return findings;
}

std::vector<Finding> grpc_stays_at_the_ends(const SourceFile& file) {
  for (const char* allowed :
       {"worker/session/grpc_link.", "tests/", "tools/grpc_log.", "tools/bench/engine/"}) {
    if (file.path.starts_with(allowed)) return {};
  }
  std::vector<Finding> findings;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const std::string name = included_name(file.lines[i]);
    if (name.starts_with("grpc") || name.ends_with(".grpc.pb.h")) {
      findings.push_back({i + 1, "includes gRPC: " + name});
    }
  }
  return findings;
}

// Asio's and Beast's headers take seconds to compile.
std::vector<Finding> boost_stays_in_few_files(const SourceFile& file) {
  for (const char* allowed :
       {"coordinator/http/connection/connection.", "coordinator/http/connection/http2_connection.",
        "coordinator/http/connection/io_thread.", "coordinator/http/request_reader.cc",
        "tools/load/client.cc", "tools/load/http_get.cc"}) {
    if (file.path.starts_with(allowed)) return {};
  }
  std::vector<Finding> findings;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const std::string name = included_name(file.lines[i]);
    if (name.starts_with("boost/")) findings.push_back({i + 1, "includes Boost: " + name});
  }
  return findings;
}

std::vector<Finding> models_know_no_ranks(const SourceFile& file) {
  std::vector<Finding> findings;
  if (!file.is_in("models") || !file.is_cpp()) return {};
  for (size_t i = 0; i < file.lines.size(); ++i) {
    std::string line = file.lines[i];
    for (char& c : line) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const char* word : {"rank", "ranks", "num_ranks", "world_size"}) {
      if (contains_word(line, word, true)) {
        findings.push_back({i + 1, std::string("a model file says ") + word});
      }
    }
  }
  return findings;
}

// Only a back end and tests may include the back end's folder; shared code belongs in the folder
// above.
std::vector<Finding> back_ends_are_apart(const SourceFile& file) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < file.lines.size() && file.is_cpp() && !file.is_in("tests"); ++i) {
    const std::string name = included_name(file.lines[i]);
    for (const char* folder : {"worker/kernels/cpu", "worker/kernels/cuda"}) {
      if (name.starts_with(std::string(folder) + "/") && !file.is_in(folder)) {
        findings.push_back({i + 1, std::string("is outside of ") + folder + ", includes " + name});
      }
    }
  }
  return findings;
}

// worker/kernels/cpu is compiled once per ISA except for these files of tables and layouts.
bool is_compiled_per_isa(const SourceFile& file) {
  for (const char* other : {"table", "none_x86", "pack/pack", "pack/pack_quantized",
                            "rows/rope_table", "sizes", "emulated/table"}) {
    const std::string stem = std::string("worker/kernels/cpu/") + other + ".";
    if (file.path.starts_with(stem)) return false;
  }
  return file.is_in("worker/kernels/cpu") && file.has_extension({".cc", ".h"});
}

std::vector<Finding> isa_files_include_little(const SourceFile& file) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < file.lines.size() && is_compiled_per_isa(file); ++i) {
    const std::string name = included_name(file.lines[i]);
    if (name.empty() || name == "worker/kernels/kernel.h" ||
        name == "worker/kernels/quantized_rows.h" || name == "worker/kernels/choose_experts.h" ||
        name == "worker/kernels/four_pages.h" || name == "base/threads/parallel.h" ||
        is_compiled_per_isa({.path = name, .lines = {}})) {
      continue;
    }
    const bool of_c = name == "immintrin.h" || name == "cstdint" || name == "cstddef" ||
                      name == "cstring" || name == "cmath";
    if (!of_c) findings.push_back({i + 1, "is compiled for one ISA and includes " + name});
  }
  return findings;
}

// A .cu file may include its own folder, kernel.h, quantized_rows.h, choose_experts.h, constexpr
// headers of base, and CUDA.
std::vector<Finding> cuda_files_include_little(const SourceFile& file) {
  std::vector<Finding> findings;
  if (!file.has_extension({".cu"})) return findings;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const std::string name = included_name(file.lines[i]);
    const bool fits = name.empty() || name.starts_with("worker/kernels/cuda/") ||
                      name == "worker/kernels/kernel.h" ||
                      name == "worker/kernels/quantized_rows.h" ||
                      name == "worker/kernels/choose_experts.h" || name == "base/numbers/exact.h" ||
                      name == "base/numbers/noise.h" || name == "base/numbers/float16.h";
    if (!fits) findings.push_back({i + 1, "is compiled for a GPU and includes " + name});
  }
  return findings;
}

std::vector<Finding> calls_are_safe(const SourceFile& file) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < file.lines.size() && file.is_cpp(); ++i) {
    const std::string code = code_of(file.lines[i]);
    for (const char* call : {"sprintf(", "strcpy(", "strcat(", "alloca(", "std::regex"}) {
      if (contains_word(code, call, false)) {
        findings.push_back({i + 1, std::string("banned: ") + call});
      }
    }
  }
  return findings;
}

// Other hashes have texts that collide, which a client could send.
std::vector<Finding> texts_are_hashed_with_a_key(const SourceFile& file) {
  std::vector<Finding> findings;
  if (file.path == "base/text_map.h" || !file.is_cpp()) return findings;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const std::string code = code_of(file.lines[i]);
    for (const char* table : {"unordered_map<", "unordered_set<", "flat_hash_map<",
                              "flat_hash_set<", "node_hash_map<"}) {
      if (code.find(std::string(table) + "std::string") == std::string::npos) continue;
      findings.push_back({i + 1, std::string("keys are texts: use a table of base/text_map.h")});
    }
  }
  return findings;
}

// Limits are called max and min.
std::vector<Finding> limits_are_max_and_min(const SourceFile& file) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < file.lines.size() && (file.is_cpp() || file.has_extension({".proto"}));
       ++i) {
    const std::string code = code_of(file.lines[i]);
    for (const char* begin : {"most_", "least_", "kMost", "kLeast"}) {
      if (contains_word(code, begin, false)) {
        findings.push_back(
            {i + 1, std::string("a name begins with ") + begin + ": write max, min"});
      }
    }
  }
  return findings;
}

std::vector<Finding> no_machine_is_named(const SourceFile& file) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    for (const std::string folder : {"work", "opt", "home", "root"}) {
      const std::string path = "/" + folder;
      for (size_t at = 0; (at = line.find(path, at)) != std::string::npos; ++at) {
        const char before = at == 0 ? ' ' : line[at - 1];
        const char after = at + path.size() == line.size() ? ' ' : line[at + path.size()];
        if (std::string_view(" \"'`(=:").find(before) != std::string_view::npos && after == '/') {
          findings.push_back({i + 1, "a path of one machine: " + path});
        }
      }
    }
  }
  return findings;
}

}  // namespace

const std::vector<Layer>& layers() {
  static const std::vector<Layer> table = [] {
    const std::vector<std::string> worker = {"base",       "operators",      "proto",
                                             "checkpoint", "worker/kernels", "worker/collectives"};
    const std::vector<std::string> coordinator = {
        "base", "operators", "proto", "checkpoint", "models", "sharding", "coordinator/text"};
    std::vector<std::string> all = coordinator;
    for (const char* folder : {"worker", "worker/kernels", "worker/collectives", "coordinator"}) {
      all.emplace_back(folder);
    }
    std::vector<std::string> tests = all;
    tests.emplace_back("tools");
    return std::vector<Layer>{
        {"base", {}},
        {"operators", {"base"}},
        {"proto", {"base", "operators"}},
        {"checkpoint", {"base", "proto"}},
        {"models", {"base", "operators", "proto", "checkpoint"}},
        {"sharding", {"base", "operators", "proto", "models"}},
        {"worker", worker},
        {"worker/kernels", {"base", "operators"}},
        {"worker/collectives", {"base", "worker/kernels"}},
        {"coordinator", coordinator},
        {"coordinator/text", {"base"}},
        {"tools", all},
        {"tests", tests},
    };
  }();
  return table;
}

std::map<std::string, std::set<std::string>> nouns_by_folder(std::span<const SourceFile> files) {
  std::map<std::string, std::set<std::string>> nouns;
  for (const SourceFile& file : files) {
    const size_t slash = file.path.find_last_of('/');
    if (!file.is_cpp() || slash == std::string::npos) continue;
    const std::string name = file.path.substr(slash + 1);
    nouns[file.path.substr(0, slash)].insert(name.substr(0, name.find('.')));
  }
  return nouns;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> table = {
      {"HasLicence", has_licence, "base/a.sh", "#!/usr/bin/env bash\necho\n"},
      {"FileIsShort", file_is_short, "base/a.h", repeat("\n", kHeaderLines + 1)},
      {"LinesAreShort", lines_are_short, "base/a.cc", repeat("/", kColumns + 1)},
      {"ProseIsShort", prose_is_short, "docs/a.md", repeat("/", kColumns + 1)},
      {"FunctionsAreShort", functions_are_short, "base/a.cc",
       "void f(\n    int a) {\n" + repeat("  g();\n", kFunctionLines - 2) + "}\n"},
      {"HeaderIsGuarded", header_is_guarded, "base/a.h", "int f();\n"},
      {"InstructionSetsStayInVec", instruction_sets_stay_in_vec,
       "worker/kernels/cpu/linear/linear.cc", "#if __AVX2__\n"},
      {"IncludesFollowLayers", includes_follow_layers, "worker/worker.cc",
       "#include \"models/config.h\"\n"},
      {"GrpcStaysAtTheEnds", grpc_stays_at_the_ends, "worker/worker.cc",
       "#include <grpcpp/grpcpp.h>\n"},
      {"BoostStaysInFewFiles", boost_stays_in_few_files, "coordinator/http/connection/server.cc",
       "#include <boost/asio/io_context.hpp>\n"},
      {"ModelsKnowNoRanks", models_know_no_ranks, "models/families/llama.cc",
       "// Rank 0 has it.\n"},
      {"IsaFilesIncludeLittle", isa_files_include_little, "worker/kernels/cpu/linear/linear.cc",
       "#include <vector>\n"},
      {"CudaFilesIncludeLittle", cuda_files_include_little, "worker/kernels/cuda/linear/linear.cu",
       "#include <absl/status/status.h>\n"},
      {"BackEndsAreApart", back_ends_are_apart, "worker/steps/executor.h",
       "#include \"worker/kernels/cuda/sizes.h\"\n"},
      {"CallsAreSafe", calls_are_safe, "base/a.cc", "  std::sprintf(text, format);\n"},
      {"TextsAreHashedWithAKey", texts_are_hashed_with_a_key, "base/a.h",
       "std::unordered_map<std::st"
       "ring, int> a;\n"},
      {"LimitsAreMaxAndMin", limits_are_max_and_min, "base/a.h", "int most_rows = 1;\n"},
      {"NoMachineIsNamed", no_machine_is_named, "docs/a.md", std::string("see /wo") + "rk/main\n"},
  };
  return table;
}

}  // namespace lockstep::testing
