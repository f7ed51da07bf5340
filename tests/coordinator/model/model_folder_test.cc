// SPDX-License-Identifier: Apache-2.0
// Folders that cannot be served: one line says what the folder has and what the user can do.
#include "coordinator/model/model_folder.h"

#include <fstream>
#include <optional>

#include "base/status.h"
#include "gmock/gmock.h"
#include "tests/support/environment.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ModelFolderTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text = "{}") {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  static std::string line_of(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(message_of(status).find('\n'), std::string::npos) << status;
    return message_of(status);
  }
  std::string refusal(const fs::path& path) { return line_of(find_model_folder(path).status()); }
  std::string refusal() { return refusal(folder_.path()); }
  std::string weights_refusal() { return line_of(check_weights(folder_.path())); }

  const TempFolder folder_;
};

TEST_F(ModelFolderTest, AFolderWithAConfigOrTheConfigItselfIsAccepted) {
  const fs::path config = write("config.json");
  EXPECT_EQ(*find_model_folder(folder_.path()), folder_.path());
  EXPECT_EQ(*find_model_folder(config), folder_.path());
}

TEST_F(ModelFolderTest, EachForeignFormatIsNamedWithAWayOut) {
  const struct {
    const char* file;
    const char* what;
    const char* way_out;
  } kCases[] = {{"model-Q4_K_M.gguf", "GGUF", "--quantize q4"},
                {"adapter_config.json", "adapter", "merge_and_unload"},
                {"onnx/model.onnx", "ONNX", "--quantize q4"},
                {"decoder.onnx", "ONNX", "--quantize q4"},
                {"weights.npz", "MLX", "original model"},
                {"params.json", "layout", "Hugging Face layout"},
                {"pytorch_model-00001-of-00002.bin", "PyTorch", "save_pretrained"},
                {"consolidated.00.pth", "PyTorch", "save_pretrained"},
                {"model.pt", "PyTorch", "save_pretrained"},
                {"model_index.json", "Diffusers", "language model"},
                {"global_step500/rank_0.distcp", "DeepSpeed", "zero_to_fp32"},
                {"tf_model.h5", "TensorFlow", "save_pretrained"}};
  for (const auto& test : kCases) {
    const TempFolder folder;
    const fs::path path = folder.path() / test.file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    const auto named =
        AllOf(HasSubstr(folder.path().string()), HasSubstr(test.what), HasSubstr(test.way_out));
    EXPECT_THAT(refusal(folder.path()), named);
    std::ofstream(folder.path() / "config.json") << "{}";
    EXPECT_TRUE(find_model_folder(folder.path()).ok());
    EXPECT_THAT(line_of(check_weights(folder.path())), named);
    std::ofstream(folder.path() / "model.safetensors") << "x";
    EXPECT_TRUE(check_weights(folder.path()).ok()) << test.file;
  }
}

TEST_F(ModelFolderTest, AFileOfWeightsIsNamed) {
  EXPECT_THAT(refusal(write("a.gguf")), AllOf(HasSubstr("a.gguf: GGUF"), HasSubstr("--quantize")));
  EXPECT_THAT(refusal(write("sha256-0123", "GGUF\3")), HasSubstr("sha256-0123: GGUF"));
  EXPECT_THAT(refusal(write("a.safetensors")), HasSubstr("name the folder that holds config.json"));
}

TEST_F(ModelFolderTest, AnAdaptersWeightsAreNotAModel) {
  write("config.json");
  write("adapter_model.safetensors");
  EXPECT_FALSE(has_weights(folder_.path()));
  write("adapter_config.json");
  EXPECT_THAT(weights_refusal(), HasSubstr("an adapter (LoRA) is no model by itself"));
}

TEST_F(ModelFolderTest, AFolderWithoutWeightsSaysHowToGetThem) {
  write("config.json");
  write("training_args.bin");
  EXPECT_THAT(weights_refusal(), AllOf(HasSubstr("must have weights"), HasSubstr("hf download"),
                                       HasSubstr("--random-weights")));
  write("model.safetensors.index.json");
  EXPECT_TRUE(check_weights(folder_.path()).ok());
}

TEST_F(ModelFolderTest, AFolderOfModelsShowsTheirNames) {
  EXPECT_THAT(refusal(), HasSubstr("has no config.json: name a folder in Hugging Face layout"));
  write("small/config.json");
  EXPECT_THAT(refusal(), HasSubstr("has no config.json, but 1 folder with one: name it (small)"));
  for (const char* name : {"large", "medium", "tiny"}) write(std::string(name) + "/config.json");
  EXPECT_THAT(refusal(),
              HasSubstr("but 4 folders with one: name one (large, medium, small and 1 more)"));
}

TEST_F(ModelFolderTest, ATokenizerOfAnotherFormIsNamed) {
  EXPECT_EQ(missing_tokenizer(folder_.path()), "has no tokenizer.json");
  for (const char* name : {"vocab.json", "tiktoken.model", "tekken.json", "tokenizer.model"}) {
    write(name);
    EXPECT_THAT(missing_tokenizer(folder_.path()),
                AllOf(HasSubstr("has no tokenizer.json, and " + std::string(name)),
                      HasSubstr("AutoTokenizer.from_pretrained, then save_pretrained")));
  }
}

TEST_F(ModelFolderTest, ModelsAreFoundInTheCacheOfHuggingfaceHub) {
  const char* const kNames[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                "XDG_CACHE_HOME", "HOME"};
  const char* const kBelow[] = {"", "", "/hub", "/huggingface/hub", "/.cache/huggingface/hub"};
  for (size_t first = 0; first < std::size(kNames); ++first) {
    SCOPED_TRACE(kNames[first]);
    // Earlier variables are unset or empty; later ones name another folder.
    std::vector<std::unique_ptr<ScopedVariable>> set;
    for (size_t i = 0; i < std::size(kNames); ++i) {
      const std::string folder = folder_.path().string() + "/" + kNames[i];
      set.push_back(std::make_unique<ScopedVariable>(kNames[i], i >= first ? std::optional(folder)
                                                                : i % 2 > 0
                                                                    ? std::optional<std::string>("")
                                                                    : std::nullopt));
    }
    const std::string cache = std::string(kNames[first]) + kBelow[first] + "/models--org--name";
    EXPECT_THAT(refusal("org/name"), AllOf(HasSubstr((folder_.path() / kNames[first]).string()),
                                           HasSubstr("`hf download org/name`")));
    write(cache + "/refs/main", "0123\n");
    const fs::path snapshot = write(cache + "/snapshots/0123/config.json").parent_path();
    EXPECT_EQ(*find_model_folder("org/name"), snapshot);
    // The path of the cache's folder finds the same snapshot.
    EXPECT_EQ(*find_model_folder(folder_.path() / cache), snapshot);
  }
}

TEST_F(ModelFolderTest, ATildeIsTheUsersFolder) {
  const ScopedVariable home("HOME", folder_.path().string());
  const ScopedVariable hub("HF_HUB_CACHE", "~/models");
  write("models/models--org--name/refs/main", "0123");
  const fs::path config = write("models/models--org--name/snapshots/0123/config.json");
  EXPECT_EQ(*find_model_folder("org/name"), config.parent_path());
}

TEST_F(ModelFolderTest, AGgufRepositoryInTheCacheIsNamed) {
  const ScopedVariable hub("HF_HUB_CACHE", folder_.path().string());
  write("models--org--name-GGUF/refs/main", "0123");
  write("models--org--name-GGUF/snapshots/0123/name-Q8_0.gguf");
  EXPECT_THAT(refusal("org/name-GGUF"), HasSubstr("holds name-Q8_0.gguf: GGUF"));
}

}  // namespace
}  // namespace lockstep
