# How every target here is built: language level, warnings, sanitizers, linker, cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Dev)
endif()
# Dev: optimised, so that tests are quick, with assertions and little debug information.
# (project() has put an empty entry for it into the cache, so this is a variable of the directory.)
set(CMAKE_CXX_FLAGS_DEV "-O2 -g1")
if(LOCKSTEP_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEV "-O1 -g1")  # a third quicker to build
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # kernels ask for more themselves

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_SOURCE_DIR}/cmake/ccache ${CMAKE_SOURCE_DIR} ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()
if(LOCKSTEP_FUZZ)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # The checks of each pointer for null and alignment would make programs twice as large. The
    # address sanitizer finds null pointers too, and the fuzzers' build checks alignment.
    if(LOCKSTEP_SANITIZE MATCHES undefined)
      add_compile_options(-fno-sanitize=null,alignment)
    endif()
    add_link_options(-Wl,--compress-debug-sections=zlib)  # else all tests together take 100 GB
  endif()
endif()

add_library(lockstep_warnings INTERFACE)
if(NOT LOCKSTEP_FUZZ)  # built with Clang, whose warnings differ
  # -Wrestrict has false positives in the <string> of g++ 12.
  target_compile_options(lockstep_warnings INTERFACE -Wall -Wextra -Wpedantic -Werror
                         -Wnon-virtual-dtor -Wno-missing-field-initializers
                         -Wno-restrict)
  if(LOCKSTEP_SANITIZE)
    # With sanitizers -Wmaybe-uninitialized has false positives too.
    target_compile_options(lockstep_warnings INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

# lockstep_module(NAME SOURCES file… [DEPS target…] [PRIVATE_DEPS target…])
# One static library per module, target lockstep::NAME; includes are written from the tree's root.
function(lockstep_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  string(REPLACE "/" "_" target "lockstep_${name}")
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(lockstep::${name} ALIAS ${target})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS}
                        $<BUILD_INTERFACE:lockstep_warnings>)
endfunction()

# lockstep_bundle_rpath(TARGET): an executable that looks for its libraries, and for theirs, in lib/
# beside itself first (DT_RPATH: DT_RUNPATH would not hold for the libraries' own).
function(lockstep_bundle_rpath target)
  set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/lib")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endfunction()
