// SPDX-License-Identifier: Apache-2.0
// The algorithm chosen for each product, with functions that behave like cuBLASLt's. They propose
// algorithms by number; algorithm i takes at most max_rows[i] rows.
#include "worker/kernels/cuda/cublas/cublas_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "worker/kernels/cuda/sizes.h"
#include "worker/kernels/report.h"

namespace lockstep::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Object {
  uint64_t cols = 0;
  int64_t stride = 0;
  std::set<int> attributes;
  const void* bias = nullptr;
};

struct Call {
  int64_t rows = 0;
  int algorithm = 0;
  const void* bias = nullptr;
  bool operator==(const Call&) const = default;
};

// The state that the functions below read and write.
struct Library {
  std::vector<int64_t> max_rows = {1 << 20};  // By algorithm.
  std::vector<int> proposed = {0};            // The algorithms that are proposed, in order.
  int status = 0;                             // The status that a multiplication returns.
  int created = 0;                            // The status that the creation of a handle returns.
  int objects = 0;
  uint64_t workspace = 0;  // The max bytes of memory that an algorithm may use.
  std::vector<uint32_t> alignments;
  std::vector<Call> calls;
  std::vector<std::string> reports;
  int plain_calls = 0;
};
Library* now = nullptr;

Object& object(void* pointer) { return *static_cast<Object*>(pointer); }
int create(void** to) {
  *to = new Object;
  ++now->objects;
  return 0;
}
int destroy(void* pointer) {
  delete static_cast<Object*>(pointer);
  --now->objects;
  return 0;
}
int set(void* pointer, int attribute, const void* value, size_t bytes) {
  Object& to = object(pointer);
  to.attributes.insert(attribute);
  if (attribute == cublas::kBias && bytes == sizeof(void*)) std::memcpy(&to.bias, value, bytes);
  return 0;
}
int set_layout(void* pointer, int attribute, const void* value, size_t bytes) {
  if (attribute != cublas::kLayoutCols || bytes != sizeof(uint64_t)) return 7;
  std::memcpy(&object(pointer).cols, value, bytes);
  return 0;
}
int set_preference(void*, int attribute, const void* value, size_t bytes) {
  if (attribute == cublas::kMaxWorkspace) std::memcpy(&now->workspace, value, bytes);
  if (attribute < cublas::kMinAlignmentA) return 0;
  std::memcpy(&now->alignments.emplace_back(), value, bytes);
  return 0;
}
int find(void*, void*, void*, void*, void*, void*, void*, int wanted, CublasLt::Finding* found,
         int* count) {
  *count = 0;
  for (const int algorithm : now->proposed) {
    if (*count == wanted) break;
    found[(*count)++].algorithm.data[0] = static_cast<uint64_t>(algorithm);
  }
  return *count > 0 ? 0 : 15;
}
bool takes(const CublasLt::Algorithm& algorithm, int64_t rows) {
  return rows <= now->max_rows.at(algorithm.data[0]);
}
int check(void*, void*, void*, void* x, void*, void* out, const CublasLt::Algorithm* algorithm,
          CublasLt::Finding* finding) {
  EXPECT_EQ(object(x).cols, object(out).cols);
  finding->workspace_bytes = 1 << 20;
  return takes(*algorithm, static_cast<int64_t>(object(x).cols)) ? 0 : 15;
}
int multiply(void*, void* operation, const void*, const void*, void*, const void*, void* x,
             const void*, const void*, void*, void*, void*, const CublasLt::Algorithm* algorithm,
             void* workspace, size_t workspace_bytes, void*) {
  EXPECT_NE(workspace, nullptr);
  EXPECT_EQ(workspace_bytes, now->workspace);
  now->calls.push_back({static_cast<int64_t>(object(x).cols), static_cast<int>(algorithm->data[0]),
                        object(operation).bias});
  return now->status;
}

CublasLt functions() {
  CublasLt lt;
  lt.version = [] { return size_t{130100}; };
  lt.create = [](void** handle) {
    static int handles;
    *handle = now->created == 0 ? &handles : nullptr;
    return now->created;
  };
  lt.status_text = [](int status) { return status == 1 ? "not initialized" : "not supported"; };
  lt.create_operation = [](void** to, int, int) { return create(to); };
  lt.set_operation = set;
  lt.destroy_operation = destroy;
  lt.create_layout = [](void** to, int, uint64_t, uint64_t, int64_t stride) {
    create(to);
    object(*to).stride = stride;
    return 0;
  };
  lt.set_layout = set_layout;
  lt.destroy_layout = destroy;
  lt.create_preference = create;
  lt.set_preference = set_preference;
  lt.destroy_preference = destroy;
  lt.find_algorithms = find;
  lt.check = check;
  lt.multiply = multiply;
  return lt;
}

const char* plain(const KernelArgs&) {
  ++now->plain_calls;
  return nullptr;
}

class CublasProductsTest : public ::testing::Test {
 protected:
  CublasProductsTest() {
    now = &library_;
    report_to([](const std::string& line) { now->reports.push_back(line); });
  }
  ~CublasProductsTest() override { report_to(nullptr); }

  CublasProducts& products() {
    if (!products_) products_.emplace(functions());
    return *products_;
  }
  // Only addresses are checked: nothing is multiplied.
  const char* run(int64_t rows, int64_t depth = 64, int64_t cols = 96, int64_t shift = 0,
                  int64_t out_shift = 0) {
    KernelArgs args;
    args.in[0] = {memory_ + shift, rows, depth, depth, DType::kBF16};
    args.in[1] = {memory_, cols, depth, depth, DType::kBF16};
    args.in[2] = {bias_, 1, cols, cols, DType::kF32};
    args.out[0] = {memory_ + out_shift, rows, cols, cols, DType::kF32};
    args.scratch = memory_;
    return products().run(args, plain);
  }

  Library library_;
  std::optional<CublasProducts> products_;
  alignas(256) std::byte memory_[256];
  float bias_[1] = {};
};

TEST_F(CublasProductsTest, ABucketOfRowsHasOneAlgorithmThatTakesAllOfThem) {
  library_.max_rows = {63, 8192, 1 << 20};
  library_.proposed = {0, 1, 2};
  for (const int64_t rows : {1, 2, 8, 9, 64, 65, 8192, 8193, 1}) EXPECT_EQ(run(rows), nullptr);
  std::vector<int> algorithms;
  for (const Call& call : library_.calls) {
    algorithms.push_back(call.algorithm);
    EXPECT_EQ(call.bias, bias_);
  }
  EXPECT_THAT(algorithms, ElementsAre(0, 0, 0, 1, 1, 1, 1, 2, 0));
  EXPECT_EQ(library_.calls[4].rows, 64);
  EXPECT_THAT(library_.reports, IsEmpty());
  EXPECT_EQ(library_.plain_calls, 0);
  EXPECT_EQ(library_.workspace, static_cast<uint64_t>(device::kProductBytes));
  EXPECT_EQ(library_.alignments, std::vector<uint32_t>(4 * std::size(kBucketEnds), kOperandAlign));
  products_.reset();
  EXPECT_EQ(library_.objects, 0);
}

TEST_F(CublasProductsTest, ABucketWithoutAnAlgorithmUsesThePlainKernelWithOneReport) {
  library_.max_rows = {4, 100};
  library_.proposed = {0, 1};
  for (const int64_t rows : {1, 8, 64, 65, 512, 8193}) EXPECT_EQ(run(rows), nullptr);
  std::vector<int> algorithms;
  for (const Call& call : library_.calls) algorithms.push_back(call.algorithm);
  EXPECT_THAT(algorithms, ElementsAre(0, 1, 1));
  EXPECT_EQ(library_.plain_calls, 3);
  EXPECT_THAT(library_.reports,
              ElementsAre(AllOf(HasSubstr("linear bf16 [96, 64] with bias, from 65 rows on"),
                                HasSubstr("the plain kernel")),
                          HasSubstr("from 8193 rows on")));
}

TEST_F(CublasProductsTest, RowsThatAreNotAMultipleOf16BytesAlwaysUseThePlainKernel) {
  for (const int64_t rows : {1, 64}) EXPECT_EQ(run(rows, 65), nullptr);
  EXPECT_EQ(library_.plain_calls, 2);
  EXPECT_THAT(library_.reports,
              ElementsAre(AllOf(HasSubstr("[96, 65]"), HasSubstr("not a multiple of 16 bytes"))));
}

// Example: a rank's third of a layer's columns, between the columns of other ranks.
TEST_F(CublasProductsTest, AnOutputAlignedOnlyToItsElementsUsesMatchingAlgorithms) {
  const std::vector<uint32_t> wanted = {kOperandAlign, kOperandAlign, 4, 4};
  for (const int64_t rows : {9, 64}) EXPECT_EQ(run(rows, 64, 97), nullptr);
  EXPECT_EQ(library_.alignments, wanted);
  library_.alignments.clear();
  for (const int64_t rows : {9, 64}) EXPECT_EQ(run(rows, 64, 96, 0, 4), nullptr);
  EXPECT_EQ(library_.alignments, wanted);
  EXPECT_EQ(library_.calls.size(), 4u);
  EXPECT_EQ(library_.plain_calls, 0);
  EXPECT_THAT(library_.reports, IsEmpty());
}

TEST_F(CublasProductsTest, AnInputsAddressMattersOnlyForItsAlignment) {
  EXPECT_EQ(run(64), nullptr);
  EXPECT_EQ(run(64, 64, 96, 16), nullptr);
  EXPECT_EQ(library_.calls.size(), 2u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(64, 64, 96, 8), nullptr);
  EXPECT_EQ(library_.plain_calls, 2);
  EXPECT_THAT(library_.reports, ElementsAre(HasSubstr("not aligned to 16 bytes")));
}

TEST_F(CublasProductsTest, ARefusedCallIsAnErrorAndNeverAnotherKernel) {
  library_.status = 15;
  EXPECT_STREQ(run(64), "not supported");
  EXPECT_EQ(library_.plain_calls, 0);
}

TEST_F(CublasProductsTest, EveryCallFailsWithoutAHandle) {
  library_.created = 1;
  EXPECT_STREQ(run(64), "not initialized");
  EXPECT_STREQ(run(1), "not initialized");
  EXPECT_EQ(library_.plain_calls, 0);
}

TEST_F(CublasProductsTest, TheLibraryIsNotCalledWithoutDepthRowsOrColumns) {
  EXPECT_EQ(run(3, 0), nullptr);
  EXPECT_EQ(library_.plain_calls, 1);
  EXPECT_EQ(run(0), nullptr);
  EXPECT_EQ(run(3, 64, 0), nullptr);
  EXPECT_EQ(library_.plain_calls, 1);
  EXPECT_THAT(library_.calls, IsEmpty());
}

TEST(CublasLibraryTest, AWrongOrMissingLibraryIsAnErrorOfOneLine) {
  CublasLt loaded;
  std::string problem;
  EXPECT_EQ(load_cublas_lt(open_library_file("libc.so.6", kCublasLibrary), &loaded, &problem),
            nullptr);
  EXPECT_EQ(problem, "libc.so.6: it lacks a function of cuBLASLt 13");
  EXPECT_EQ(load_cublas_lt(open_library_file("off", kCublasLibrary), &loaded, &problem), nullptr);
  EXPECT_EQ(problem, "switched off by LOCKSTEP_CUBLASLT");
}

TEST(CublasLibraryTest, TheRealLibraryHasAllFunctionsThatAreUsed) {
  const OpenedLibrary opened = open_library(kCublasLibrary);
  if (opened.handle == nullptr) GTEST_SKIP() << opened.problem;
  CublasLt loaded;
  std::string problem;
  EXPECT_EQ(load_cublas_lt(opened, &loaded, &problem), &loaded) << problem;
}

}  // namespace
}  // namespace lockstep::cuda
