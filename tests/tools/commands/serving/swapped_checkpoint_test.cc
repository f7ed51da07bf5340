// SPDX-License-Identifier: Apache-2.0
// Another model of the same shape replaces a checkpoint, in each of five ways. No later answer may
// come from the old model or from a mixture of both.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/source_dir.h"
#include "checkpoint/checkpoint.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTuned = "model.layers.1.mlp.down_proj.weight";

std::string prompt_answer(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"generate",  model, "--prompt",     "Once upon a time",
                                        "--seed",    "1",   "--max-tokens", "30",
                                        "--workers", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProcessResult result = run_lockstep(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

// Two folders: the demo model, and a "fine-tuned" copy in which one matrix has the opposite signs.
class SwappedCheckpointTest : public ::testing::Test {
 protected:
  SwappedCheckpointTest() {
    fs::create_directories(tuned_);
    for (const fs::path& folder : {model_, tuned_}) {
      fs::copy(fs::path(LOCKSTEP_SOURCE_DIR) / "demo", folder, fs::copy_options::recursive);
      fs::last_write_time(weights_of(folder), time_);
    }
    tune(0);
    fs::last_write_time(weights_of(tuned_), time_);
  }

  // Flips the signs of one matrix, except `spared_bytes` bytes in its middle.
  void tune(size_t spared_bytes) const {
    const Checkpoint checkpoint = Checkpoint::open(tuned_).value();
    const TensorInfo& tensor = *checkpoint.find(kTuned);
    std::fstream file(weights_of(tuned_), std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes(static_cast<size_t>(tensor.end - tensor.begin), '\0');
    file.seekg(tensor.begin);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const size_t spared = (bytes.size() - spared_bytes) / 2;
    for (size_t i = 1; i < bytes.size(); i += 2) {
      const bool is_spared = spared <= i && i < spared + spared_bytes;
      if (!is_spared) bytes[i] = static_cast<char>(bytes[i] ^ 0x80);
    }
    file.seekp(tensor.begin);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  static fs::path weights_of(const fs::path& folder) { return folder / "model.safetensors"; }

  // The ways in which new files get into a folder. All keep the old files' modification times.
  void rewrite_in_place() const {
    std::ifstream from(weights_of(tuned_), std::ios::binary);
    std::fstream to(weights_of(model_), std::ios::in | std::ios::out | std::ios::binary);
    to << from.rdbuf();
    to.close();
    fs::last_write_time(weights_of(model_), time_);
  }
  void remove_and_copy() const {
    fs::remove(weights_of(model_));
    fs::copy_file(weights_of(tuned_), weights_of(model_));
    fs::last_write_time(weights_of(model_), time_);
  }
  void rename_over() const { fs::rename(weights_of(tuned_), weights_of(model_)); }
  // This is like the mount of a new version of an image.
  void replace_folder() const {
    fs::rename(model_, folder_.path() / "old");
    fs::rename(tuned_, model_);
  }
  // /dev/shm is another file system on most machines.
  void link_to_another_file_system() const {
    fs::remove(weights_of(model_));
    fs::copy_file(weights_of(tuned_), elsewhere_.path() / "model.safetensors");
    fs::last_write_time(elsewhere_.path() / "model.safetensors", time_);
    fs::create_symlink(elsewhere_.path() / "model.safetensors", weights_of(model_));
  }

  // A temporary folder in memory. `folder_` is usually on a disk.
  struct SharedMemoryFolder {
    SharedMemoryFolder() {
      std::string name = "/dev/shm/lockstep_test.XXXXXX";
      if (mkdtemp(name.data()) == nullptr) std::abort();
      folder = name;
    }
    ~SharedMemoryFolder() { fs::remove_all(folder); }
    const fs::path& path() const { return folder; }
    fs::path folder;
  };

  const TempFolder folder_;
  const SharedMemoryFolder elsewhere_;
  const fs::path model_ = folder_.path() / "model", tuned_ = folder_.path() / "tuned";
  const fs::file_time_type time_ = fs::last_write_time(folder_.path()) - std::chrono::hours(24);
};

class EveryWayTest : public SwappedCheckpointTest, public ::testing::WithParamInterface<int> {
 protected:
  void swap() const {
    static constexpr void (EveryWayTest::*kWays[])() const = {
        &EveryWayTest::rewrite_in_place, &EveryWayTest::remove_and_copy, &EveryWayTest::rename_over,
        &EveryWayTest::replace_folder, &EveryWayTest::link_to_another_file_system};
    (this->*kWays[GetParam()])();
  }
};

TEST_P(EveryWayTest, TheWeightCacheMatchesTheCurrentFiles) {
  const std::vector<std::string> cache = {"--weight-cache", (folder_.path() / "cache").string()};
  const std::string old_answer = prompt_answer(model_.string(), cache);
  EXPECT_EQ(prompt_answer(model_.string(), cache), old_answer);
  const std::string new_answer = prompt_answer(tuned_.string());
  ASSERT_NE(new_answer, old_answer);
  swap();
  EXPECT_EQ(prompt_answer(model_.string(), cache), new_answer);
}

TEST_P(EveryWayTest, AGroupThatLosesAWorkerLoadsTheNewFilesCompletely) {
  Answered wanted;
  {
    Server tuned({tuned_.string(), "--workers", "2"});
    wanted = tuned.generate(story(30, 1));
  }
  Server server({model_.string(), "--workers", "2"});
  EXPECT_NE(server.generate(story(30, 1)).tokens, wanted.tokens);
  // The sleep is longer than a tick of the file system's clock.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  swap();
  kill(server.workers().at(1), SIGKILL);
  // If the remaining worker kept its shard of the old model, the answer would differ.
  EXPECT_TRUE(server.eventually([&](const auto&) {
    return server.generate(story(30, 1)).tokens == wanted.tokens;
  })) << server.process().err();
  EXPECT_EQ(server.generate(story(30, 1)).tokens, wanted.tokens);
}

// The only worker is killed, so no worker knows the old files. Ready.contents, by which ranks
// compare their files, samples only bytes that are the same in the old and the new file.
TEST_F(SwappedCheckpointTest, NoAnswerBeginsWithOneModelAndEndsWithAnother) {
  tune(0);  // Undoes the constructor's change.
  tune(8192);
  Server server({model_.string(), "--workers", "1"});
  v1::GenerateRequest request = story(900, 1);
  request.set_n(8);
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));  // Without a sent token the request would restart.
  fs::last_write_time(weights_of(tuned_), time_ + std::chrono::hours(1));
  fs::rename(weights_of(tuned_), weights_of(model_));
  kill(server.workers().at(0), SIGKILL);
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_message().find("rewritten"), std::string::npos);
}

// A hard link changes the inode's times but no data, as chmod does.
TEST_F(SwappedCheckpointTest, ATouchedInodeEndsNoRequest) {
  Server server({model_.string(), "--workers", "2"});
  const Answered alone = server.generate(story(900, 1));
  Answered answer;
  std::thread client([&] { answer = server.generate(story(900, 1)); });
  EXPECT_TRUE(server.eventually([](const auto& model) { return model.running() == 1; }));
  fs::create_hard_link(weights_of(model_), folder_.path() / "link");
  kill(server.workers().at(1), SIGKILL);
  client.join();
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.tokens, alone.tokens);
}

std::string name_of(const ::testing::TestParamInfo<int>& info) {
  static constexpr const char* kNames[] = {"InPlace", "RemovedAndCopied", "RenamedOver",
                                           "FolderReplaced", "OnAnotherFileSystem"};
  return kNames[info.param];
}

INSTANTIATE_TEST_SUITE_P(SwappedCheckpointTest, EveryWayTest, ::testing::Range(0, 5), name_of);

}  // namespace
}  // namespace lockstep::testing
