// SPDX-License-Identifier: Apache-2.0
#include "worker/kernel_choice/bindings.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_program.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

// The kernel for a linear on a machine with AMX.
std::string kernel_of(program::DType weight, program::DType activation, const char* numbers) {
  ProgramBuilder b(0, 1, 100, 64);
  const int x = b.value("x", 64, program::TOKENS, activation);
  const int w = b.weight("w", program::LINEAR_WEIGHT, 32, 64, 0, 32, weight);
  b.add(program::LINEAR, {x}, {w}, {b.value("y", 32)});
  b.program.set_numeric_class(numbers);
  const auto bindings = bind(b.program, cpu_backend(Isa::kAmx));
  EXPECT_TRUE(bindings.ok()) << bindings.status();
  return bindings.ok() ? bindings->kernels.back()->name : "";
}

TEST(BindingsTest, KernelsWithTheirOwnBitsServeOnlyTheirOwnClass) {
  if (find_kernel(cpu_kernels(), Op::kLinear, DType::kBF16, DType::kBF16, Isa::kAmx)->isa !=
      Isa::kAmx) {
    GTEST_SKIP() << "this build has no kernels for x86 CPUs";
  }
  EXPECT_EQ(kernel_of(program::BF16, program::BF16, kAmxClass), "linear_bf16_amx");
  const auto* without_amx =
      find_kernel(cpu_kernels(), Op::kLinear, DType::kBF16, DType::kBF16, Isa::kAvx512Bf16);
  EXPECT_EQ(kernel_of(program::BF16, program::BF16, kCpuClass), without_amx->name);
  EXPECT_EQ(kernel_of(program::Q8, program::F32, kAmxClass), "linear_q8_amx");
  EXPECT_EQ(kernel_of(program::Q8, program::F32, kCpuClass), "linear_q8_amx");
}

TEST(BindingsTest, ACpuRefusesRoundedOutputsOfKernelsThatGiveFloat32) {
  ProgramBuilder b(0, 1, 100, 64);
  const int x = b.value("x", 64), norm = b.weight("w", program::NORM, 1, 64, 0, 64);
  const int y = b.value("y", 64, program::TOKENS, program::BF16);
  b.add(program::RMS_NORM, {x}, {norm}, {y});
  EXPECT_EQ(bind(b.program, cpu_backend(Isa::kPortable)).status().message(),
            "instruction 0: the output of rms_norm in numeric class f32.v1 must be float32, found "
            "bfloat16 in the program; run the same version everywhere");
  b.program.mutable_values(y)->set_dtype(program::F32);
  EXPECT_TRUE(bind(b.program, cpu_backend(Isa::kPortable)).ok());
}

}  // namespace
}  // namespace lockstep
