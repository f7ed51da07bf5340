// SPDX-License-Identifier: Apache-2.0
#include "models/config/quantization.h"

#include <algorithm>
#include <string_view>

#include "base/status.h"
#include "base/system/file.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

struct Method {
  std::string_view name;  // The value of quant_method.
  std::string_view what;
};
constexpr Method kMethods[] = {
    {"fp8", "floats of 8 bits with a scale per block or tensor"},
    {"fbgemm_fp8", "floats of 8 bits with a scale per row"},
    {"modelopt", "NVIDIA's FP8 or NVFP4"},
    {"compressed-tensors", "integers or floats of 4 or 8 bits"},
    {"mxfp4", "floats of 4 bits with a scale per 32 weights"},
    {"awq", "integers of 4 bits"},
    {"gptq", "integers of 2 to 8 bits"},
    {"auto-round", "integers of 2 to 8 bits"},
    {"bitsandbytes", "codes of 4 or 8 bits"},
    {"hqq", "integers of 1 to 8 bits"},
    {"quanto", "integers or floats of 2 to 8 bits"},
    {"torchao", "integers or floats of 4 or 8 bits"},
    {"eetq", "integers of 8 bits"},
    {"aqlm", "codes of 2 bits"},
    {"vptq", "codes of 2 to 4 bits"},
    {"bitnet", "weights of -1, 0 and 1"},
    {"exl2", "integers of 2 to 8 bits"},
    {"exl3", "codes of 1 to 8 bits"},
};

absl::Status refuse(std::string_view where, const Json& method) {
  const auto* known = std::ranges::find_if(
      kMethods, [&](const Method& candidate) { return method == candidate.name; });
  const std::string what = known == std::end(kMethods)
                               ? fmt::format("by {}", describe(method))
                               : fmt::format("by the method \"{}\" ({})", known->name, known->what);
  return invalid_argument(
      "{}: the weights are stored {}, which is not supported; take the original model (bfloat16, "
      "float16 or float32), with --quantize for small integers",
      where, what);
}

}  // namespace

absl::StatusOr<std::string> read_quantization(const Json& found) {
  if (found.is_null()) return "";
  const auto field = [&](const char* key) {
    return found.is_object() ? found.value(key, Json()) : Json();
  };
  if (field("quant_method") != "lockstep") {
    const bool nvidia = field("quant_method").is_null() && !field("quant_algo").is_null();
    const Json method = nvidia ? Json("modelopt") : field("quant_method");
    return refuse("quantization_config", method.is_null() ? found : method);
  }
  if (field("version") != 1 || !field("scheme").is_string()) {
    return invalid_argument(
        "quantization_config: must be version 1 and a scheme, found version {} and {}: was it "
        "written by a newer lockstep?",
        describe(field("version")), describe(field("scheme")));
  }
  return field("scheme").get<std::string>();
}

absl::Status check_quantization_file(const std::filesystem::path& folder, const Json& json) {
  const std::filesystem::path path = folder / "hf_quant_config.json";
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) return absl::OkStatus();
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (json.is_object() && !json.value(key, Json()).is_null()) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  ASSIGN_OR_RETURN(const Json file, parse_json(text, path.string()));
  const Json what = file.is_object() ? file.value("quantization", Json()) : Json();
  const bool plain = what.is_object() && what.value("quant_algo", Json()).is_null();
  return plain ? absl::OkStatus() : refuse(path.string(), "modelopt");
}

}  // namespace lockstep
