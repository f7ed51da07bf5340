# CUDA for the .cu files of worker/kernels/cuda, and the libraries of its host code. Taken for
# granted is a toolkit alone: nvcc on PATH or in CMAKE_CUDA_COMPILER, no GPU and no driver.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  # A100 and H100 as machine code; anything newer compiles the PTX when it is first used.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13 REQUIRED)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# This CMake knows CUDA's C++ up to 17 only: 20 is said by hand. Like everywhere, a*b+c is two
# roundings unless the source says fma. constexpr functions of base may be called on the device.
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -DNDEBUG")
set(LOCKSTEP_CUDA_OPTIONS -std=c++20 -fmad=false --expt-relaxed-constexpr)
if(LOCKSTEP_WERROR)
  list(APPEND LOCKSTEP_CUDA_OPTIONS -Werror=all-warnings)
endif()
list(JOIN LOCKSTEP_CXX_OPTIONS "," host_options)
list(APPEND LOCKSTEP_CUDA_OPTIONS -Xcompiler=${host_options})
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:${LOCKSTEP_CUDA_OPTIONS}>")
