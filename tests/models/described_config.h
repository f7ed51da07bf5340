// SPDX-License-Identifier: Apache-2.0
// What becomes of a text as a model's config.json, without any weights.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/status.h"
#include "models/models.h"
#include "tests/support/temp_folder.h"

namespace lockstep {

inline absl::StatusOr<ModelDescription> describe_config(const std::string& config) {
  const TempFolder folder;
  std::ofstream(folder.path() / "config.json") << config;
  return describe_model(folder.path(), {}, 0);
}

// With members replaced (RFC 7396: null removes).
inline absl::StatusOr<ModelDescription> describe_config(const std::string& config,
                                                        const std::string& patch) {
  Json json = Json::parse(config);
  json.merge_patch(Json::parse(patch));
  return describe_config(json.dump());
}

template <typename... Texts>
Config config_of(const Texts&... texts) {
  const absl::StatusOr<ModelDescription> model = describe_config(texts...);
  EXPECT_TRUE(model.ok()) << message_of(model.status());
  return model.ok() ? model->config : Config();
}

inline void expect_refused(const absl::StatusOr<ModelDescription>& model, const std::string& says) {
  ASSERT_FALSE(model.ok()) << says;
  EXPECT_NE(message_of(model.status()).find(says), std::string::npos) << model.status();
}
inline void expect_refused(const std::string& config, const std::string& says) {
  expect_refused(describe_config(config), says);
}
inline void expect_refused(const std::string& config, const std::string& patch,
                           const std::string& says) {
  expect_refused(describe_config(config, patch), says);
}

}  // namespace lockstep
