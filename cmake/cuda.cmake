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

# This CMake supports C++ in CUDA only up to 17: 20 is set by an option. a*b+c rounds twice, as
# everywhere, unless the source has fma. Device code may call constexpr functions of base.
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -DNDEBUG")
set(LOCKSTEP_CUDA_OPTIONS -std=c++20 -fmad=false --expt-relaxed-constexpr)
if(LOCKSTEP_WERROR)
  list(APPEND LOCKSTEP_CUDA_OPTIONS -Werror=all-warnings)
endif()
list(JOIN LOCKSTEP_CXX_OPTIONS "," host_options)
list(APPEND LOCKSTEP_CUDA_OPTIONS -Xcompiler=${host_options})
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:${LOCKSTEP_CUDA_OPTIONS}>")
