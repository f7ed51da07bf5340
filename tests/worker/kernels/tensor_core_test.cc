// SPDX-License-Identifier: Apache-2.0
// The shim's tensor cores, compared with outputs recorded on GPUs, and with a plain model.
#include "worker/kernels/cuda/shim/tensor_core.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float16.h"
#include "base/source_dir.h"
#include "tests/worker/kernels/tensor_core_model.h"

namespace lockstep {
namespace {

using shim::StepFactors;

struct Format {
  const char* name;
  const char* recorded;
  float (*widen)(uint16_t bits);
  uint16_t (*narrow)(float value);
  int min_exponent;
};
constexpr Format kFormats[] = {
    {"bf16", "bf16_h100.bin", bf16_to_float, float_to_bf16, kMinExponentOfBF16},
    {"f16", "f16_h200.bin", f16_to_float, float_to_f16, kMinExponentOfF16},
};

// Reads what tests/data/tensor_cores/README.md describes.
class Recording {
 public:
  explicit Recording(const Format& format) : format_(format) {
    std::ifstream file(
        std::string(LOCKSTEP_SOURCE_DIR "/tests/data/tensor_cores/") + format.recorded,
        std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  // Reads the next product; false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::vector<int32_t> sizes = take<int32_t>(3);
    depth = sizes[0], rows = sizes[1], cols = sizes[2];
    a = factors(rows);
    b = factors(cols);
    outputs = take<float>(rows * cols);
    return true;
  }
  // The shim's sum, from zero, in order of K.
  float computed(int row, int col) const {
    const int steps = depth / 16;
    float sum = 0;
    for (int step = 0; step < steps; ++step) {
      sum = shim::add_step(a.at(row * steps + step), b.at(col * steps + step), sum);
    }
    return sum;
  }
  float output(int row, int col) const { return outputs.at(row * cols + col); }

  int depth = 0, rows = 0, cols = 0;
  std::vector<StepFactors> a, b;  // [row or column][step]
  std::vector<float> outputs;

 private:
  template <typename T>
  std::vector<T> take(int count) {
    std::vector<T> taken(static_cast<size_t>(count));
    const size_t bytes = taken.size() * sizeof(T);
    if (at_ + bytes > bytes_.size()) return ADD_FAILURE() << "truncated", taken;
    std::memcpy(taken.data(), bytes_.data() + at_, bytes);
    at_ += bytes;
    return taken;
  }
  std::vector<StepFactors> factors(int count) {
    std::vector<StepFactors> all(static_cast<size_t>(count * depth / 16));
    int at = 0;
    for (const uint16_t bits : take<uint16_t>(count * depth)) {
      all[static_cast<size_t>(at / 16)].set(at % 16, format_.widen(bits), format_.min_exponent);
      ++at;
    }
    return all;
  }

  const Format& format_;
  std::string bytes_;
  size_t at_ = 0;
};

TEST(TensorCoreTest, TheSumsEqualThoseRecordedOnGpus) {
  for (const Format& format : kFormats) {
    Recording recording(format);
    int cases = 0;
    for (; recording.next(); ++cases) {
      for (int row = 0; row < recording.rows; ++row) {
        for (int col = 0; col < recording.cols; ++col) {
          ASSERT_EQ(recording.computed(row, col), recording.output(row, col))
              << format.name << ", case " << cases << ": " << row << ", " << col;
        }
      }
    }
    EXPECT_EQ(cases, 6);
  }
}

struct Step {
  float a[16] = {}, b[16] = {};
  float c = 0;

  float sum(const Format& format) const {
    StepFactors rows, columns;
    for (int i = 0; i < 16; ++i) {
      rows.set(i, a[i], format.min_exponent);
      columns.set(i, b[i], format.min_exponent);
    }
    return shim::add_step(rows, columns, c);
  }
  float modelled(const Format& format) const { return modelled_step(a, b, c, format.min_exponent); }
};

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

TEST(TensorCoreTest, StepsOfAllNumbersAgreeWithThePlainModel) {
  std::mt19937 random(1);
  int finite = 0, infinite = 0;
  for (const Format& format : kFormats) {
    for (int i = 0; i < 20000; ++i) {
      Step step;
      // In half of the cases the exponents of a, b and c are close to each other, so that no number
      // is lost.
      const uint32_t near = random(), mask = i % 2 == 0 ? 0xffff : 0x8fff;
      const uint32_t same = i % 2 == 0 ? 0 : near & 0x7000;
      for (int k = 0; k < 16; ++k) {
        step.a[k] = format.widen(static_cast<uint16_t>((random() & mask) | same));
        step.b[k] = format.widen(static_cast<uint16_t>((random() & mask) | same));
        if (i % 3 == 0 && !std::isfinite(step.a[k] * step.b[k])) step.a[k] = 0;
      }
      step.c = i % 5 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                          : step.a[0] * step.b[15] * 3;
      const float sum = step.sum(format);
      ASSERT_EQ(bits_of(sum), bits_of(step.modelled(format))) << format.name << " " << i;
      finite += std::isfinite(sum) && sum != 0;
      infinite += std::isinf(sum);
    }
  }
  EXPECT_GT(finite, 10000);
  EXPECT_GT(infinite, 100);
}

// The crafted cases that also ran on GPUs: 1 + 2^-r - 1.
TEST(TensorCoreTest, ANumberIsCutOffAt25BitsBelowTheLargest) {
  for (const Format& format : kFormats) {
    const auto left = [&](int r) {
      Step step{.a = {1, std::ldexp(1.0f, -r / 2), -1},
                .b = {1, std::ldexp(1.0f, -(r - r / 2)), 1}};
      return step.sum(format);
    };
    for (int r = 20; r <= 25; ++r) EXPECT_EQ(left(r), std::ldexp(1.0f, -r)) << r;
    EXPECT_EQ(left(26), 0);
  }
}

TEST(TensorCoreTest, SumsAreCutOffAndNeverRounded) {
  const Format& format = kFormats[0];
  Step step{.a = {1, 0x1p-24f, 0x1p-24f}, .b = {1, 1, 1}, .c = 0};
  EXPECT_EQ(step.sum(format), 1 + 0x1p-23f);
  step.a[2] = 0x1p-25f;
  EXPECT_EQ(step.sum(format), 1);
  step.a[0] = -1, step.a[1] = -0x1p-24f, step.a[2] = -0x1p-25f;
  EXPECT_EQ(step.sum(format), -1);
}

TEST(TensorCoreTest, EveryNanIsTheSameAndInfinitiesKeepTheirSign) {
  constexpr uint32_t kNan = 0x7fffffff;
  for (const Format& format : kFormats) {
    EXPECT_EQ(bits_of(Step{.a = {INFINITY}, .b = {0}}.sum(format)), kNan);
    EXPECT_EQ(bits_of(Step{.a = {INFINITY, 1}, .b = {1, -INFINITY}}.sum(format)), kNan);
    EXPECT_EQ(bits_of(Step{.a = {-NAN}, .b = {1}}.sum(format)), kNan);
    EXPECT_EQ(bits_of(Step{.c = NAN}.sum(format)), kNan);
    EXPECT_EQ((Step{.a = {-INFINITY, 5}, .b = {2, 7}, .c = 0x1p127f}.sum(format)), -INFINITY);
    EXPECT_EQ((Step{.a = {1}, .b = {2}, .c = INFINITY}.sum(format)), INFINITY);
  }
}

TEST(TensorCoreTest, SumsBeyondFloat32AreInfiniteAndZerosArePositive) {
  const Format& format = kFormats[0];
  EXPECT_EQ((Step{.a = {0x1p100f}, .b = {-0x1p28f}}.sum(format)), -INFINITY);
  EXPECT_EQ((Step{.a = {0x1p100f, 0x1p100f}, .b = {0x1p100f, -0x1p100f}, .c = 5}.sum(format)), 0);
  EXPECT_EQ(bits_of(Step{.a = {-0.0f}, .b = {1}, .c = -0.0f}.sum(format)), 0);
  EXPECT_EQ((Step{.a = {0x1p-133f}, .b = {0x1p-20f}, .c = 0x1p-149f}.sum(format)), 0x1p-149f);
}

}  // namespace
}  // namespace lockstep
