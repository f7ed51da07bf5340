// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "base/numbers/math.h"
#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Some outputs over a slice of the vocabulary, with everything that the kernel may return.
struct Call {
  Matrix logits;
  int64_t vocab_begin = 0;
  std::vector<OutputSpec> requests;
  std::vector<std::vector<Candidate>> tops, raw_tops;
  std::vector<std::vector<BlockSum>> edited_sums, raw_sums;
  std::vector<std::vector<float>> copies;

  Call(int64_t outputs, int64_t vocab, float spread = 3)
      : logits(Matrix::random(outputs, vocab, 5, DType::kF32, vocab + 3)),
        requests(static_cast<size_t>(outputs)) {
    for (int64_t r = 0; r < outputs; ++r) {
      for (int64_t i = 0; i < vocab; ++i) logits.view().row<float>(r)[i] *= spread;
      requests[static_cast<size_t>(r)].seed = static_cast<uint64_t>(r) * 77;
      requests[static_cast<size_t>(r)].position = 100 + r;
      requests[static_cast<size_t>(r)].temperature = 0.25f * static_cast<float>(r);
    }
  }

  void run_kernel(const KernelEntry& kernel, int64_t top_count, int threads = 1) {
    const auto blocks = static_cast<size_t>((logits.view().cols + kVocabBlock - 1) / kVocabBlock);
    for (auto* list : {&tops, &raw_tops}) {
      list->assign(requests.size(), std::vector<Candidate>(static_cast<size_t>(top_count)));
    }
    for (auto* list : {&edited_sums, &raw_sums}) {
      list->assign(requests.size(), std::vector<BlockSum>(blocks));
    }
    copies.assign(requests.size(), std::vector<float>(static_cast<size_t>(logits.view().cols)));
    for (size_t i = 0; i < requests.size(); ++i) {
      OutputSpec& request = requests[i];
      request.top = tops[i].data();
      request.raw_top = raw_tops[i].data();
      request.top_count = request.raw_top_count = top_count;
      request.want_noisy = true;
      request.edited_sums = edited_sums[i].data();
      request.raw_sums = raw_sums[i].data();
      request.logits = copies[i].data();
    }
    StepView step;
    step.outputs = requests.data();
    step.output_count = static_cast<int64_t>(requests.size());
    KernelArgs args;
    args.in[0] = logits.view();
    args.attrs = TopCandidatesAttrs{.vocab_begin = vocab_begin};
    args.step = &step;
    run(kernel, args, threads);
  }
};

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void expect_same_candidate(const Candidate& a, const Candidate& b, const std::string& what) {
  ASSERT_EQ(a.id, b.id) << what;
  ASSERT_TRUE(same(a.logit, b.logit) && same(a.edited, b.edited) && same(a.noisy, b.noisy))
      << what << ", id " << a.id << ": " << a.logit << " " << a.edited << " " << a.noisy
      << ", expected " << b.logit << " " << b.edited << " " << b.noisy;
}

void expect_same_sum(const BlockSum& a, const BlockSum& b, double tolerance) {
  ASSERT_EQ(a.max, b.max);
  // The sum of infinite logits is NaN.
  ASSERT_TRUE(same(a.sum, b.sum) || std::abs(a.sum - b.sum) <= tolerance)
      << a.sum << ", expected " << b.sum;
}

// All results except the sums must have the same bits.
void expect_same(const Call& found, const Call& wanted, double sum_tolerance) {
  for (size_t r = 0; r < wanted.requests.size(); ++r) {
    const OutputSpec &a = found.requests[r], &b = wanted.requests[r];
    const std::string what = "output " + std::to_string(r);
    ASSERT_EQ(a.top_found, b.top_found) << what;
    ASSERT_EQ(a.raw_top_found, b.raw_top_found) << what;
    for (int64_t i = 0; i < b.top_found; ++i) expect_same_candidate(a.top[i], b.top[i], what);
    for (int64_t i = 0; i < b.raw_top_found; ++i) {
      expect_same_candidate(a.raw_top[i], b.raw_top[i], what + " raw");
    }
    expect_same_candidate(a.noisy, b.noisy, what + " noisy");
    for (size_t i = 0; i < wanted.raw_sums[r].size(); ++i) {
      expect_same_sum(found.edited_sums[r][i], wanted.edited_sums[r][i], sum_tolerance);
      expect_same_sum(found.raw_sums[r][i], wanted.raw_sums[r][i], sum_tolerance);
    }
    for (size_t i = 0; i < wanted.copies[r].size(); ++i) {
      ASSERT_TRUE(same(found.copies[r][i], wanted.copies[r][i]));
    }
  }
}

KernelEntry reference_of(const KernelEntry& kernel) {
  KernelEntry plain = kernel;
  plain.run = reference::kernel(Op::kTopCandidates);
  return plain;
}

class TopCandidatesTest : public testing::TestWithParam<KernelEntry> {
 protected:
  void expect_reference(Call& call, int64_t top_count, int threads = 1) {
    Call wanted(0, 0);
    wanted.logits = call.logits.copy();
    wanted.requests = call.requests;
    wanted.vocab_begin = call.vocab_begin;
    wanted.run_kernel(reference_of(GetParam()), top_count);
    call.run_kernel(GetParam(), top_count, threads);
    expect_same(call, wanted, 1e-4);
    // The logits stay unchanged, because more candidates may be requested.
    for (int64_t r = 0; r < call.logits.view().rows; ++r) {
      for (int64_t i = 0; i < call.logits.view().cols; ++i) {
        ASSERT_TRUE(same(call.logits.at(r, i), wanted.logits.at(r, i)));
      }
    }
  }
};

TEST_P(TopCandidatesTest, AgreesWithASortAroundBlockBorders) {
  for (const int64_t vocab : {1, 15, 63, 64, 65, 127, 128, 1000, 4096, 4097}) {
    for (const int64_t count : {0, 1, 5, 64, 200}) {
      Call call(4, vocab);
      expect_reference(call, count);
    }
  }
}

TEST_P(TopCandidatesTest, AgreesWithASortOverALargeVocabulary) {
  Call call(3, 50000, 4);
  expect_reference(call, 40, 2);
}

TEST_P(TopCandidatesTest, TiesGoToTheLowestId) {
  Call call(3, 300);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t i = 0; i < 300; ++i) {
      call.logits.view().row<float>(r)[i] = static_cast<float>(i % 3);
    }
  }
  expect_reference(call, 150);
  EXPECT_EQ(call.requests[0].top[0].id, 2);
  EXPECT_EQ(call.requests[0].top[1].id, 5);
}

// Logits of a row, by their index: each kind puts the best elsewhere.
struct Kind {
  const char* name;
  float (*value)(int64_t i);
};
constexpr Kind kKinds[] = {
    {"all equal", [](int64_t) { return 1.5f; }},
    {"all NaN", [](int64_t) { return std::nanf(""); }},
    {"all -inf", [](int64_t) { return -kInfinity; }},
    {"all inf", [](int64_t) { return kInfinity; }},
    {"0 and -0", [](int64_t i) { return i % 3 == 0 ? -0.0f : 0.0f; }},
    {"one number among NaN", [](int64_t i) { return i == 4711 ? -3.0f : std::nanf(""); }},
    {"ascending", [](int64_t i) { return static_cast<float>(i) * 0.01f; }},
    {"descending", [](int64_t i) { return static_cast<float>(-i) * 0.01f; }},
    {"seven values", [](int64_t i) { return static_cast<float>(i * i % 7); }},
    {"the best in two blocks",
     [](int64_t i) { return static_cast<float>(i % 50) * 0.1f + (i > 3000 && i < 3100 ? 9 : 0); }},
    {"the best in each 64th",
     [](int64_t i) { return static_cast<float>(i % 64 == 63 ? 5 : i % 4); }},
};

TEST_P(TopCandidatesTest, AgreesWithASortWhereverTheBestAre) {
  for (const Kind& kind : kKinds) {
    for (const int64_t count : {64, 65, 300}) {
      SCOPED_TRACE(std::string(kind.name) + ", the best " + std::to_string(count));
      Call call(2, 5000);
      for (int64_t r = 0; r < 2; ++r) {
        for (int64_t i = 0; i < 5000; ++i) call.logits.view().row<float>(r)[i] = kind.value(i);
      }
      call.requests[1].temperature = 0.9f;
      expect_reference(call, count);
    }
  }
}

TEST_P(TopCandidatesTest, AgreesWithASortOver300000Columns) {
  Call call(1, 300000, 4);
  call.requests[0].temperature = 0.7f;
  expect_reference(call, 130, 2);
}

TEST_P(TopCandidatesTest, EachOfManyRowsIsAnswered) {
  Call call(70, 1100);
  for (OutputSpec& request : call.requests) request.temperature *= 0.1f;
  expect_reference(call, 3, 2);
}

TEST_P(TopCandidatesTest, AsManyAsThereAreColumnsComeInOrder) {
  for (const int64_t vocab : {1, 64, 700, 5000}) {
    Call call(1, vocab, 0.1f);
    expect_reference(call, vocab);
  }
}

TEST_P(TopCandidatesTest, EditsAndMasksApplyInASliceOfTheVocabulary) {
  for (const int64_t begin : {0, 64, 640, 100}) {
    Call call(5, 500);
    call.vocab_begin = begin;
    std::vector<LogitEdit> edits;
    for (int32_t id = 3; id < 1200; id += 17) edits.push_back({id, 1.3f, id % 2 ? -2.0f : 30.0f});
    std::mt19937_64 random(kTestSeed);
    std::vector<uint64_t> mask(20);
    for (uint64_t& word : mask) word = random() & random();
    for (OutputSpec& request : call.requests) {
      request.edits = edits.data();
      request.edit_count = static_cast<int64_t>(edits.size());
    }
    for (const size_t r : {1, 3, 4}) call.requests[r].mask = mask.data();
    expect_reference(call, 30, 2);
  }
}

// A prompt's token is scored this way.
TEST_P(TopCandidatesTest, AnInfiniteEditMakesItsTokenWinUnlessItsLogitIsNan) {
  for (const int32_t id : {0, 63, 64, 200, 499}) {
    const LogitEdit edit = {id, 1.0f, kInfinity};
    Call call(3, 500);
    for (OutputSpec& request : call.requests) {
      request.temperature = 0;
      request.edits = &edit;
      request.edit_count = 1;
    }
    call.logits.view().row<float>(1)[id] = std::nanf("");
    call.logits.view().row<float>(2)[id] = -kInfinity;
    call.run_kernel(GetParam(), 0);
    EXPECT_EQ(call.requests[0].noisy.id, id);
    EXPECT_EQ(call.requests[0].noisy.logit, call.logits.view().row<float>(0)[id]);
    EXPECT_NE(call.requests[1].noisy.id, id);
    EXPECT_NE(call.requests[2].noisy.id, id);
  }
}

TEST_P(TopCandidatesTest, AMaskThatAllowsNothingGivesNoCandidate) {
  Call call(2, 130);
  const std::vector<uint64_t> none(3, 0);
  for (OutputSpec& request : call.requests) request.mask = none.data();
  expect_reference(call, 4);
  EXPECT_EQ(call.requests[1].top_found, 0);
  EXPECT_EQ(call.requests[1].raw_top_found, 4);
  EXPECT_EQ(call.requests[1].noisy.id, -1);
  EXPECT_EQ(call.edited_sums[1][0].max, -kInfinity);
  EXPECT_EQ(call.edited_sums[1][0].sum, 0);
}

TEST_P(TopCandidatesTest, NanRanksAfterAllNumbersAndInfinitiesRankAsNumbers) {
  Call call(3, 200);
  for (int64_t r = 0; r < 3; ++r) {
    float* row = call.logits.view().row<float>(r);
    for (const int64_t i : {0, 1, 70, 199}) row[i] = std::nanf("");
    for (const int64_t i : {2, 130}) row[i] = -kInfinity;
  }
  expect_reference(call, 200);
  EXPECT_FALSE(std::isnan(call.requests[2].noisy.noisy));
  Call all_nan(2, 70);
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t i = 0; i < 70; ++i) all_nan.logits.view().row<float>(r)[i] = std::nanf("");
  }
  expect_reference(all_nan, 3);
}

TEST_P(TopCandidatesTest, TheNoisyWinnerAgreesWithAFullSearch) {
  // Many draws of three kinds: flat logits, where large noise matters; steep logits, where noise
  // matters little; and large logits, where the sum rounds.
  const KernelEntry& kernel = GetParam();
  for (const float spread : {0.0f, 0.01f, 1.0f, 6.0f, 1000.0f, 1e6f}) {
    Call call(40, 700, spread);
    for (OutputSpec& request : call.requests) request.temperature += 0.1f;
    expect_reference(call, 1, kernel.isa == Isa::kPortable ? 2 : 1);
  }
}

// Logits that cancel the noise, up to a few units in the last place.
TEST_P(TopCandidatesTest, TheNoisyWinnerIsExactIfAllNoisyValuesAreNearlyEqual) {
  Call call(8, 3000);
  for (int64_t r = 0; r < 8; ++r) {
    OutputSpec& request = call.requests[static_cast<size_t>(r)];
    request.temperature = 1;
    for (int32_t i = 0; i < 3000; ++i) {
      const float noise = gumbel_noise(request.seed, request.position, i);
      call.logits.view().row<float>(r)[i] = static_cast<float>(i * 7 % 11) * 1e-7f - noise;
    }
  }
  expect_reference(call, 1);
}

TEST_P(TopCandidatesTest, BitsDependNeitherOnThreadsNorOnIsaNorOnTheSliceOfTheVocabulary) {
  const KernelEntry* portable =
      find_kernel(cpu_kernels(), Op::kTopCandidates, DType::kNone, DType::kF32, Isa::kPortable);
  Call one(3, 5000), other(3, 5000), part(3, 0);
  one.run_kernel(GetParam(), 10, 1);
  other.run_kernel(*portable, 10, 3);
  expect_same(other, one, 0);
  part.logits = Matrix(3, 1200);
  part.vocab_begin = 640;
  for (int64_t r = 0; r < 3; ++r) {
    std::copy_n(one.logits.view().row<float>(r) + 640, 1200, part.logits.view().row<float>(r));
    part.requests[static_cast<size_t>(r)] = one.requests[static_cast<size_t>(r)];
  }
  part.run_kernel(GetParam(), 10, 2);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t b = 0; b < 18; ++b) {
      EXPECT_EQ(part.edited_sums[r][b].sum, one.edited_sums[r][b + 10].sum);
      EXPECT_EQ(part.raw_sums[r][b].sum, one.raw_sums[r][b + 10].sum);
    }
  }
}

TEST_P(TopCandidatesTest, NoRequestsOrNoColumnsWriteNothing) {
  Call call(2, 0);
  call.run_kernel(GetParam(), 3);
  EXPECT_EQ(call.requests[0].top_found, 0);
  EXPECT_EQ(call.requests[0].noisy.id, -1);
  Call bare(2, 100);
  StepView step;
  step.outputs = bare.requests.data();
  step.output_count = 2;
  KernelArgs args;
  args.in[0] = bare.logits.view();
  args.attrs = TopCandidatesAttrs{};
  args.step = &step;
  run(GetParam(), args);
  EXPECT_EQ(bare.requests[0].top_found, 0);
}

INSTANTIATE_TEST_SUITE_P(Cpu, TopCandidatesTest, testing::ValuesIn(kernels_of(Op::kTopCandidates)),
                         kernel_name);

}  // namespace
}  // namespace lockstep
