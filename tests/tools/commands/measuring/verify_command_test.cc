// SPDX-License-Identifier: Apache-2.0
// `lockstep verify` with worker processes, against values computed earlier by transformers
// (tests/data/verify), and with a fake Python.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/source_dir.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

const std::string kModel = LOCKSTEP_SOURCE_DIR "/tests/data/goldens/exaone4_full";
const std::string kReference = LOCKSTEP_SOURCE_DIR "/tests/data/verify/exaone4_full.safetensors";

// A program in place of Python: its arguments are the script, MODEL, FILE, --tokens and ids.
std::string write_python(TemporaryFolder& folder, const std::string& lines) {
  const std::string path = folder.write("python", "#!/bin/sh\n" + lines);
  EXPECT_EQ(chmod(path.c_str(), 0700), 0);
  return path;
}

TEST(VerifyCommandTest, ThreeWorkersAgreeWithTransformers) {
  const ProcessResult result =
      run_lockstep({"verify", kModel, "--reference", kReference, "--workers", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.err << result.out;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["differs"], false);
  EXPECT_EQ(json["workers"], 3);
  EXPECT_EQ(json["tokens"], 7);
  EXPECT_EQ(json["layers"].size(), 4U);
  // The command compares linears, norms, the results of attention and of products, both sums of a
  // layer, and the logits.
  EXPECT_GE(json["compared"], 40);
  for (const auto& layer : json["layers"]) EXPECT_LE(layer["error"], 1e-5) << layer;
}

TEST(VerifyCommandTest, AModelWithOtherWeightsDiffersAndTheOperatorIsNamed) {
  const ProcessResult result = run_lockstep(
      {"verify", kModel, "--reference", kReference, "--quantize", "q4", "--tolerance", "1e-4"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("The first that differs: "));
  EXPECT_THAT(result.out, HasSubstr("layer 1"));
}

TEST(VerifyCommandTest, TransformersComputesTheTokensAndItsValuesMayBeKept) {
  TemporaryFolder folder;
  const std::string python = write_python(folder, "cp " + kReference +
                                                      " \"$3\" && echo $4 $5 >&2 && "
                                                      "echo loading && echo transformers 9.9\n");
  const std::string kept = folder.path() + "/kept.safetensors";
  const ProcessResult result =
      run_lockstep({"verify", kModel, "--python", python, "--prompt-ids", "1,2,3", "--keep", kept});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("exaone4_full on 1 worker, gather, 7 tokens, compared with "
                                    "transformers 9.9"));
  EXPECT_EQ(read_file(kept), read_file(kReference));
}

void expect_one_line(const std::vector<std::string>& more, const std::string& wanted) {
  std::vector<std::string> arguments = {"verify", kModel};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProcessResult result = run_lockstep(arguments);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr(wanted));
  EXPECT_EQ(lines_said(result.err), 1) << result.err;
}

TEST(VerifyCommandTest, MissingRequirementsAreErrorsOfOneLine) {
  TemporaryFolder folder;
  const std::string python =
      write_python(folder, "echo Traceback >&2\necho it needs torch >&2\nexit 3\n");
  expect_one_line({"--python", python}, "lockstep: it needs torch");
  expect_one_line({"--python", "/none/python"}, "--python /none/python: ");
  expect_one_line({"--reference", "/none/r"}, "/none/r");
  expect_one_line({"--reference", kReference, "--prompt", "a"}, "cannot be combined with --prompt");
  expect_one_line({"--reference", kModel + "/model.safetensors"}, "must be F32, found BF16");
  expect_one_line({"--prompt-ids", "1,128"}, "token: must be 0 to 127, found 128");
  expect_one_line({"--prompt", "a"}, "has no tokenizer.json");
  expect_one_line({"--tolerance", "2"}, "--tolerance: must be a number from 0 to 1, found 2");
  expect_one_line({"--random-weights", "1"}, "--random-weights");
}

}  // namespace
}  // namespace lockstep::testing
