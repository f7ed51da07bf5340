// SPDX-License-Identifier: Apache-2.0
#include "base/tls/reloading_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/status.h"
#include "tests/support/files/spoiled_files.h"
#include "tests/support/network/certificates.h"
#include "tests/support/patience.h"

namespace lockstep {
namespace {

using testing::Authority;
using testing::kSpoilers;
using testing::Spoiler;
using Reload = ReloadingTls::Reload;

// Catches the log while this object lives.
class CaughtLog {
 public:
  CaughtLog() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "caught", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~CaughtLog() { spdlog::set_default_logger(before_); }
  // The text since the last call. The caller makes sure that no thread logs meanwhile.
  std::string take() { return std::exchange(text_, std::ostringstream()).str(); }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_;
};

class ReloadingTlsTest : public ::testing::Test {
 protected:
  std::unique_ptr<ReloadingTls> load(Reload reload, void (*prepare)(ssl_ctx_st*) = nullptr) const {
    auto loaded =
        ReloadingTls::load(files_, {.user = "the test", .prepare = prepare, .reload = reload});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }

  const Authority authority_;
  const Authority others_;
  const Authority::Identity identity_ = authority_.sign("own");
  const TlsFiles files_ = tls_files(identity_, authority_);
};

TEST_F(ReloadingTlsTest, WithABrokenFileTheLastGoodFilesStayInUseAndOneLineIsLogged) {
  const auto tls = load(Reload::kOnGet);
  const std::shared_ptr<const LoadedTls> good = tls->get();
  CaughtLog log;
  for (const std::string& path : {files_.cert, files_.key, files_.ca}) {
    for (const Spoiler& spoiler : kSpoilers) {
      SCOPED_TRACE(path + " is " + spoiler.name);
      const testing::SpoiledFile spoiled(path, spoiler);
      for (int look = 0; look < 3; ++look) EXPECT_EQ(tls->get()->bytes, good->bytes);
      const std::string line = log.take();
      EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
      EXPECT_THAT(line, ::testing::HasSubstr(path + ": "));
      EXPECT_THAT(line,
                  ::testing::HasSubstr("; the last good certificate is still used for the test"));
    }
  }
  EXPECT_EQ(tls->get()->bytes, good->bytes);  // Nothing has changed.
  EXPECT_EQ(log.take(), "");
}

TEST_F(ReloadingTlsTest, AGoodChangeIsUsedAndEarlierContextsStayValid) {
  const auto tls = load(Reload::kOnGet);
  const std::shared_ptr<const LoadedTls> before = tls->get();
  EXPECT_EQ(tls->get(), before);
  replace(identity_, authority_.sign("renewed"));
  const std::shared_ptr<const LoadedTls> after = tls->get();
  EXPECT_NE(after, before);
  EXPECT_NE(after->bytes, before->bytes);
  EXPECT_NE(after->context, before->context);
  EXPECT_EQ(tls->get(), after);
}

TEST_F(ReloadingTlsTest, HalfAChangeIsIgnoredUntilTheOtherHalfArrives) {
  const auto tls = load(Reload::kOnGet);
  const std::shared_ptr<const LoadedTls> before = tls->get();
  const Authority::Identity renewed = authority_.sign("renewed");
  replace({identity_.cert, renewed.key}, renewed);  // The old key stays.
  EXPECT_EQ(tls->get(), before);
  replace(identity_, renewed);
  EXPECT_NE(tls->get(), before);
}

TEST_F(ReloadingTlsTest, EachContextIsPreparedBeforeItIsReturned) {
  static int prepared;
  prepared = 0;
  const auto tls = load(Reload::kOnGet, [](ssl_ctx_st*) { ++prepared; });
  EXPECT_EQ(prepared, 1);
  replace(identity_, authority_.sign("renewed"));
  tls->get();
  EXPECT_EQ(prepared, 2);
}

TEST_F(ReloadingTlsTest, AThreadPollsTheFilesIfGetMustNotWait) {
  const auto tls = load(Reload::kEverySecond);
  const std::shared_ptr<const LoadedTls> before = tls->get();
  replace(identity_, others_.sign("renewed"));
  EXPECT_TRUE(becomes_true([&] { return tls->get() != before; }));
}

TEST_F(ReloadingTlsTest, LoadingFailsIfTheFirstFilesAreUnusable) {
  for (const Spoiler& spoiler : kSpoilers) {
    const testing::SpoiledFile spoiled(files_.key, spoiler);
    const absl::Status status = ReloadingTls::load(files_, {.user = "the test"}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

// Simulates two changes of one size within the clock's tick: their times are equal.
TEST_F(ReloadingTlsTest, AChangeWithoutANewFileTimeIsDetected) {
  const auto tls = load(Reload::kOnGet);
  const auto time = std::filesystem::last_write_time(files_.ca);
  const std::shared_ptr<const LoadedTls> before = tls->get();
  std::filesystem::copy_file(others_.path(), files_.ca,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::last_write_time(files_.ca, time);
  EXPECT_NE(tls->get(), before);
}

}  // namespace
}  // namespace lockstep
