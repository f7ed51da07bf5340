// SPDX-License-Identifier: Apache-2.0
#include "base/flag.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Options {
  bool fast = false;
  int workers = 1;
  int64_t wait_ms = 60'000;
  int64_t chunk = 0;
  int64_t limit = int64_t{50} << 30;
  double share = 0;
  std::string name;
  std::optional<uint64_t> seed;
  std::vector<double> speeds;

  std::vector<Flag> flags() {
    return {
        {"--fast", &fast},
        {"--workers", &workers},
        {"--wait-seconds", &wait_ms, "", FlagValues{.unit = 1'000}},
        {"--chunk", &chunk, "", FlagValues{.words = {"auto"}}},
        {"--limit", &limit, "", FlagValues{.is_size = true}},
        {"--share", &share},
        {"--name", &name},
        {"--seed", &seed},
        {"--speeds", &speeds, "", FlagValues{.has_commas = true}},
    };
  }
};

TEST(FlagTest, ValuesAreWrittenInTheUnitOfTheirFlag) {
  Options options;
  std::vector<std::string> texts;
  for (const Flag& flag : options.flags()) texts.push_back(text_of(flag));
  EXPECT_THAT(texts, ElementsAre("false", "1", "60", "auto", "50GiB", "0", "", "", ""));
  options = {.fast = true,
             .workers = 3,
             .wait_ms = 2'000,
             .chunk = 7,
             .limit = 1'500,
             .share = 0.85,
             .name = "a b",
             .seed = 0,
             .speeds = {8, 0.5}};
  texts.clear();
  for (const Flag& flag : options.flags()) texts.push_back(text_of(flag));
  EXPECT_THAT(texts, ElementsAre("true", "3", "2", "7", "1500", "0.85", "a b", "0", "8,0.5"));
}

TEST(FlagTest, OnlyValuesThatDifferFromTheDefaultsBecomeArguments) {
  Options options, defaults;
  EXPECT_THAT(arguments_of(options.flags(), defaults.flags()), IsEmpty());
  options.fast = true;
  options.wait_ms = 2'000;
  options.name = "a b";
  options.speeds = {8, 0.5};
  EXPECT_THAT(arguments_of(options.flags(), defaults.flags()),
              ElementsAre("--fast", "--wait-seconds", "2", "--name", "a b", "--speeds", "8,0.5"));
}

}  // namespace
}  // namespace lockstep
