# One function per kind of target. Files are listed by hand; a library is a folder, and it may use
# only what it links. All share one include path, so the tidy test checks the includes, too.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # Kernels are written with vectors: -O3 gains nothing.

find_program(CCACHE ccache)
if(CCACHE)
  # Paths are relative to the repository, so that checkouts share compiled files.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    # ccache's manual requires this for precompiled headers.
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

# base/source_dir.h, for code that reads files of the repository. A compiler definition for every
# file would make all compiled files depend on the checkout's folder.
set(LOCKSTEP_GENERATED ${CMAKE_BINARY_DIR}/generated)
configure_file(${PROJECT_SOURCE_DIR}/cmake/source_dir.h.in ${LOCKSTEP_GENERATED}/base/source_dir.h)

find_package(Threads REQUIRED)

# The source determines every bit: the optimiser must not contract a*b+c. A designated initialiser
# names the fields that differ from the defaults: the others are not "missing".
set(LOCKSTEP_CXX_OPTIONS -ffp-contract=off -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
if(LOCKSTEP_WERROR)
  list(APPEND LOCKSTEP_CXX_OPTIONS -Werror)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${LOCKSTEP_CXX_OPTIONS}>")
if(LOCKSTEP_CUDA)
  include(cuda)
endif()
# A target's files are compiled six at a time, because reading the headers takes most of the time.
# Six test files of the engine compile in 35 s one by one, and in 12 s together.
option(CMAKE_UNITY_BUILD "Compile several files at once" ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6)
if(CMAKE_UNITY_BUILD)
  # GCC then takes a class of a .cc file for a class of a header, and would warn.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
# A server that reads bytes of strangers is hardened: bounds of containers, of libc's copies and of
# the stack are checked, and the linker's tables are read-only. The kernels' hot loops are not
# hardened (LOCKSTEP_UNHARDENED): they read nothing that a client sent. With sanitizers these checks
# are off, because sanitizers check more.
set(LOCKSTEP_UNHARDENED -U_FORTIFY_SOURCE -U_GLIBCXX_ASSERTIONS -fno-stack-protector)
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT LOCKSTEP_SANITIZE)
  set(hardening -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS -fstack-protector-strong)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${hardening}>")
  add_link_options(-Wl,-z,relro -Wl,-z,now)
  include(CheckPIESupported)
  check_pie_supported()
endif()
if(LOCKSTEP_SANITIZE)
  # With a sanitizer's calls in the code, GCC 12 warns wrongly about unset values, so the presets of
  # the sanitizers do not turn warnings into errors.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()

if(NOT LOCKSTEP_KERNELS_ONLY)
  find_package(OpenSSL 3.0 REQUIRED)
  find_package(Protobuf 3.21 REQUIRED)
  find_package(gRPC 1.51 CONFIG REQUIRED)
  find_package(absl REQUIRED)
  find_package(fmt REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(prometheus-cpp CONFIG REQUIRED)
  find_package(Boost 1.81 REQUIRED)  # Only headers: Asio and Beast.
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(ONIGURUMA REQUIRED IMPORTED_TARGET oniguruma)
  # Oniguruma exports its own regcomp and regexec. The C library is first, so that other users of
  # these names get one dialect, and AddressSanitizer does not mix both.
  set_property(TARGET PkgConfig::ONIGURUMA PROPERTY
    INTERFACE_LINK_LIBRARIES -Wl,-lc ${ONIGURUMA_LINK_LIBRARIES})
  pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
  pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)
endif()

# Files whose local names collide with those of other files: they are compiled one by one.
function(lockstep_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Reading headers takes two thirds of compiling: common headers are read once for libraries and once
# for tests. lockstep_precompile(name HEADERS <string> DEPS absl::status OPTIONS -fPIC)
function(lockstep_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${LOCKSTEP_GENERATED}/precompiled.cc CONTENT "")
  add_library(${name} OBJECT ${LOCKSTEP_GENERATED}/precompiled.cc)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # OPTIONS sets it.
endfunction()

set(LOCKSTEP_PRECOMPILED_HEADERS
  <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream>
  <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <string> <string_view>
  <thread> <unordered_map> <utility> <vector>)
set(LOCKSTEP_PRECOMPILED_DEPS)
if(NOT LOCKSTEP_KERNELS_ONLY)
  list(APPEND LOCKSTEP_PRECOMPILED_HEADERS
    <fmt/format.h> <absl/status/statusor.h> <google/protobuf/message.h>
    <google/protobuf/repeated_field.h> <nlohmann/json.hpp>)
  set(LOCKSTEP_PRECOMPILED_DEPS fmt::fmt)
  lockstep_precompile(lockstep_precompiled
    HEADERS ${LOCKSTEP_PRECOMPILED_HEADERS}
    DEPS ${LOCKSTEP_PRECOMPILED_DEPS}
    OPTIONS -fPIC -pthread)
endif()

# lockstep_library(name SOURCES a.cc b.cc DEPS lockstep_base absl::status)
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  if(LOCKSTEP_PRECOMPILED)
    target_link_libraries(${name} PRIVATE ${LOCKSTEP_PRECOMPILED_DEPS})
    target_precompile_headers(${name} REUSE_FROM lockstep_precompiled)
  endif()
endfunction()

# With -O1 tests compile in four fifths of -O2's time; with sanitizers, -O0 saves another quarter.
set(LOCKSTEP_TEST_OPTIMIZATION -O1)
if(LOCKSTEP_SANITIZE)
  set(LOCKSTEP_TEST_OPTIMIZATION -O0)
endif()

# The current folder under tests/: the label of its tests, so that ctest sums up times by folder and
# `ctest -L worker/kernels` runs one folder.
function(lockstep_test_label result)
  file(RELATIVE_PATH label ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  set(${result} ${label} PARENT_SCOPE)
endfunction()

# lockstep_test(name SOURCES a_test.cc DEPS lockstep_base TIMEOUT 60): a test program; most folders
# have one. PREFIX distinguishes its tests from those of another program with the same sources.
function(lockstep_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PREFIX" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE
    ${ARG_DEPS} ${LOCKSTEP_PRECOMPILED_DEPS} GTest::gtest_main GTest::gmock)
  target_precompile_headers(${name} REUSE_FROM lockstep_precompiled_tests)
  target_include_directories(${name} PRIVATE ${LOCKSTEP_GENERATED})
  target_compile_options(${name} PRIVATE ${LOCKSTEP_TEST_OPTIMIZATION})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  lockstep_test_label(label)
  # Without pretty values, ctest names a test by its generated name, not by its parameter's bytes.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${ARG_PREFIX}" NO_PRETTY_VALUES
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${label})
endfunction()

# lockstep_embed(page.cc web/chat index.html page.css): page.cc, from page.cc.in, where @index.html@
# is replaced by the text of that folder's file. After a change of these files CMake runs again.
function(lockstep_embed output folder)
  foreach(file ${ARGN})
    set(path ${PROJECT_SOURCE_DIR}/${folder}/${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} ${file})
  endforeach()
  configure_file(${output}.in ${output} @ONLY)
endfunction()

# lockstep_command_test(name TIMEOUT 60 COMMAND program argument): a test without GoogleTest.
function(lockstep_command_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "COMMAND" ${ARGN})
  lockstep_test_label(label)
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${label})
endfunction()

# lockstep_fuzzer(name DEPS lockstep_text): a libFuzzer program of <name>_fuzz.cc.
function(lockstep_fuzzer name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  add_executable(${name}_fuzz ${name}_fuzz.cc)
  target_link_libraries(${name}_fuzz PRIVATE ${ARG_DEPS})
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name}_fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
