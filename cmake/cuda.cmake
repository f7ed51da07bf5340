# CUDA for the .cu files of worker/kernels/cuda, and the libraries of its host code. Needs
# only a toolkit: nvcc on PATH or in CMAKE_CUDA_COMPILER, no GPU and no driver.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  # Machine code for A100 and H100; newer GPUs compile the PTX on first use.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13 REQUIRED)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# CMake 3.25 supports C++ in CUDA only up to 17: an option below sets 20. -fmad=false: a*b+c rounds
# twice, as in all code, unless the source calls fma. Device code may call constexpr functions of
# base.
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -DNDEBUG")
set(LOCKSTEP_CUDA_OPTIONS -std=c++20 -fmad=false --expt-relaxed-constexpr)
if(LOCKSTEP_WERROR)
  list(APPEND LOCKSTEP_CUDA_OPTIONS -Werror=all-warnings)
endif()
list(JOIN LOCKSTEP_CXX_OPTIONS "," host_options)
list(APPEND LOCKSTEP_CUDA_OPTIONS -Xcompiler=${host_options})
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:${LOCKSTEP_CUDA_OPTIONS}>")
