// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's matrices are column-major: out^T [N, rows] = weight [N, K] * x^T [K, rows].
#include "worker/kernels/cuda/cublas/cublas_products.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/kernels/cuda/sizes.h"
#include "worker/kernels/report.h"

namespace lockstep::cuda {
namespace {

constexpr int kProposals = 16;

int type_number(DType type) {
  if (type == DType::kBF16) return cublas::kBF16;
  return type == DType::kF16 ? cublas::kF16 : cublas::kF32;
}

struct Bucket {
  int64_t first = 1;
  int64_t last = 0;
};
Bucket bucket_of(int64_t rows) {
  Bucket bucket;
  for (const int64_t end : kBucketEnds) {
    if (bucket.last > 0) bucket.first = bucket.last + 1;
    bucket.last = end;
    if (rows <= end) break;
  }
  return bucket;
}

bool is_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kOperandAlign == 0;
}

std::string text_of(const ProductShape& shape) {
  return std::string("linear ") + dtype_short_name(shape.type) + " [" + std::to_string(shape.cols) +
         ", " + std::to_string(shape.depth) + "]" + (shape.has_bias ? " with bias" : "");
}

constexpr const char* kPlainText = ": the plain kernel computes it, many times slower";

}  // namespace

struct CublasProducts::Product {
  const CublasLt& library;
  void *operation = nullptr, *weight = nullptr, *x = nullptr, *out = nullptr;
  bool ready = false;

  Product(const CublasLt& lt, const ProductShape& shape) : library(lt) {
    const auto cols = static_cast<uint64_t>(shape.cols), depth = static_cast<uint64_t>(shape.depth);
    const int type = type_number(shape.type), transposed = cublas::kTransposed;
    ready = library.create_operation(&operation, cublas::kCompute32F, cublas::kF32) == 0 &&
            set(cublas::kTransA, transposed) &&
            library.create_layout(&weight, type, depth, cols, shape.depth) == 0 &&
            library.create_layout(&x, type, depth, 1, shape.x_stride) == 0 &&
            library.create_layout(&out, cublas::kF32, cols, 1, shape.out_stride) == 0;
    const int adds_bias = cublas::kEpilogueBias;
    if (ready && shape.has_bias) ready = set(cublas::kEpilogue, adds_bias);
  }
  ~Product() {
    for (void* layout : {out, x, weight}) {
      if (layout != nullptr) library.destroy_layout(layout);
    }
    if (operation != nullptr) library.destroy_operation(operation);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  template <typename T>
  bool set(int attribute, const T& value) {
    return library.set_operation(operation, attribute, &value, sizeof(value)) == 0;
  }
  bool set_rows(int64_t rows) {
    const auto count = static_cast<uint64_t>(rows);
    return library.set_layout(x, cublas::kLayoutCols, &count, sizeof(count)) == 0 &&
           library.set_layout(out, cublas::kLayoutCols, &count, sizeof(count)) == 0;
  }
  // The library's proposals for the number of rows that is set, its best first.
  std::vector<Algorithm> proposals(void* handle, bool out_aligned) const {
    void* wanted = nullptr;
    if (library.create_preference(&wanted) != 0) return {};
    const auto want = [&](int attribute, const auto& value) {
      return library.set_preference(wanted, attribute, &value, sizeof(value)) == 0;
    };
    const auto workspace = static_cast<uint64_t>(device::kProductBytes);
    const auto alignment = static_cast<uint32_t>(kOperandAlign);
    const auto out_alignment = out_aligned ? alignment : uint32_t{sizeof(float)};
    bool well =
        want(cublas::kMaxWorkspace, workspace) && want(cublas::kReductionSchemes, cublas::kNoSplit);
    for (const int operand : {cublas::kMinAlignmentA, cublas::kMinAlignmentB}) {
      well = well && want(operand, alignment);
    }
    for (const int operand : {cublas::kMinAlignmentC, cublas::kMinAlignmentD}) {
      well = well && want(operand, out_alignment);
    }
    CublasLt::Finding found[kProposals];
    int count = 0;
    well = well && library.find_algorithms(handle, operation, weight, x, out, out, wanted,
                                           kProposals, found, &count) == 0;
    library.destroy_preference(wanted);
    std::vector<Algorithm> proposed;
    for (int i = 0; well && i < count; ++i) {
      if (found[i].state == 0) proposed.push_back(found[i].algorithm);
    }
    return proposed;
  }
  bool accepts(void* handle, const Algorithm& algorithm, int64_t rows) {
    CublasLt::Finding finding;
    return set_rows(rows) &&
           library.check(handle, operation, weight, x, out, out, &algorithm, &finding) == 0 &&
           finding.workspace_bytes <= static_cast<size_t>(device::kProductBytes);
  }
};

struct CublasProducts::Memory {
  Memory(const CublasLt& library, const ProductShape& of) : shape(of), product(library, of) {}

  const ProductShape shape;
  Product product;
  bool plain = false;  // The plain kernel computes any number of rows.
  bool said_unaligned = false;
  // The key is the bucket's first number of rows. An empty value: the plain kernel.
  std::map<int64_t, std::optional<Algorithm>> chosen;
};

CublasProducts::CublasProducts(const CublasLt& library)
    : library_(library), created_(library.create(&handle_)) {}

CublasProducts::~CublasProducts() = default;  // The driver may be gone: the handle is not closed.

CublasProducts::Memory& CublasProducts::memory_of(const ProductShape& shape) {
  std::unique_ptr<Memory>& memory = known_[shape];
  if (memory != nullptr) return *memory;
  memory = std::make_unique<Memory>(library_, shape);
  const int64_t element = dtype_bytes(shape.type);
  const auto uneven = [](int64_t bytes) { return bytes % kOperandAlign != 0; };
  memory->plain = uneven(shape.depth * element) || uneven(shape.x_stride * element);
  if (memory->plain) {
    report(text_of(shape) + ": rows of an input are not a multiple of " +
           std::to_string(kOperandAlign) + " bytes" + kPlainText);
  }
  return *memory;
}

std::optional<CublasLt::Algorithm> CublasProducts::for_rows(Memory& memory, int64_t rows) {
  const Bucket bucket = bucket_of(rows);
  const auto [at, is_new] = memory.chosen.try_emplace(bucket.first);
  if (!is_new) return at->second;
  Product& product = memory.product;
  std::vector<Algorithm> proposed;
  if (product.ready && product.set_rows(bucket.last)) {
    proposed = product.proposals(handle_, memory.shape.out_aligned);
  }
  const auto accepted = std::ranges::find_if(proposed, [&](const Algorithm& algorithm) {
    return product.accepts(handle_, algorithm, bucket.first) &&
           product.accepts(handle_, algorithm, bucket.last);
  });
  if (accepted != proposed.end()) {
    at->second = *accepted;
  } else {
    report(text_of(memory.shape) + ", from " + std::to_string(bucket.first) +
           " rows on: cuBLASLt has no algorithm" + kPlainText);
  }
  return at->second;
}

const char* CublasProducts::run(const KernelArgs& args, KernelFn plain) {
  const TensorView &x = args.in[0], &weight = args.in[1], &bias = args.in[2], &out = args.out[0];
  if (x.rows <= 0 || out.cols <= 0) return nullptr;
  if (x.cols == 0) return plain(args);  // Nothing to multiply.
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return library_.status_text(created_);
  Memory& memory = memory_of({.type = x.dtype,
                              .depth = x.cols,
                              .cols = out.cols,
                              .x_stride = x.stride,
                              .out_stride = out.stride,
                              .out_aligned = is_aligned(out.data) && is_aligned(out.row<float>(1)),
                              .has_bias = bias.data != nullptr});
  if (memory.plain) return plain(args);
  // The check has the same result for all numbers of rows: the program decides where a view begins.
  if (!is_aligned(x.data) || !is_aligned(weight.data)) {
    if (!std::exchange(memory.said_unaligned, true)) {
      report(text_of(memory.shape) + ": an input is not aligned to " +
             std::to_string(kOperandAlign) + " bytes" + kPlainText);
    }
    return plain(args);
  }
  const std::optional<Algorithm> algorithm = for_rows(memory, x.rows);
  if (!algorithm) return plain(args);
  Product& product = memory.product;
  if (!product.set_rows(x.rows) || (bias.data != nullptr && !product.set(cublas::kBias, bias.data)))
    return "cuBLASLt refused the product's description";
  const float one = 1, zero = 0;
  const int status =
      library_.multiply(handle_, product.operation, &one, weight.data, product.weight, x.data,
                        product.x, &zero, out.data, product.out, out.data, product.out, &*algorithm,
                        args.scratch, static_cast<size_t>(device::kProductBytes), args.queue);
  return status == 0 ? nullptr : library_.status_text(status);
}

}  // namespace lockstep::cuda
