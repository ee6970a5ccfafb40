# CUDA kernels as shared libraries for the CPU; docs/design/emulator.md.
#
# cuda_on_cpu_library(NAME SOURCES file.cu... [CHECKED] [DEFINES name...]): the library NAME, with the runtime in it,
# that gives its kernels by EMU_LIBRARY_SYMBOL (tests/emulator/emu_library.h). CHECKED: the runtime looks at every
# access, for which the kernels are compiled with -fsanitize=thread,alignment; no sanitizer's library is linked.
#
# Neither the kernels nor the runtime get the flags of this project: fibers and the sanitizers of C code do not mix.

set(EMU_FOLDER ${CMAKE_CURRENT_LIST_DIR})

# Without fused multiply-add in hardware every fmaf is a call.
set(EMU_CPU_FLAGS "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo EMU_CPU REGEX "^flags.* fma .*avx2 " LIMIT_COUNT 1)
  if(EMU_CPU)
    set(EMU_CPU_FLAGS -mfma -mavx2)
  endif()
endif()

set(EMU_FLAGS -std=gnu++17 -g -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -ffp-contract=off -fno-math-errno
  -fno-strict-aliasing -Wall -Wextra ${EMU_CPU_FLAGS})
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # Two libraries in one process have shared arrays of their own; and thread-local variables, which those are, are found
  # without a call that AddressSanitizer intercepts.
  list(APPEND EMU_FLAGS -fno-gnu-unique)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND EMU_FLAGS -mtls-dialect=gnu2)
  endif()
endif()
if(FX_WERROR)
  list(APPEND EMU_FLAGS -Werror)
endif()

function(cuda_on_cpu_library name)
  cmake_parse_arguments(L "CHECKED" "" "SOURCES;DEFINES" ${ARGN})
  set(look emu_look_none)
  set(flags -O2)
  if(L_CHECKED)
    set(look emu_look)
    set(flags -O1 -fsanitize=thread,alignment)
    if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
      list(APPEND flags "SHELL:-mllvm -tsan-instrument-read-before-write") # it would leave out that read
    endif()
  endif()
  set_source_files_properties(${L_SOURCES} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  add_library(${name} SHARED ${L_SOURCES})
  target_sources(${name} PRIVATE $<TARGET_OBJECTS:emu_run> $<TARGET_OBJECTS:${look}>)
  target_compile_options(${name} PRIVATE ${EMU_FLAGS} ${flags} -fno-threadsafe-statics -Wno-unknown-pragmas
    -include ${EMU_FOLDER}/cuda_on_cpu.h)
  target_compile_definitions(${name} PRIVATE ${L_DEFINES})
  target_include_directories(${name} PRIVATE ${EMU_FOLDER} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${name} PRIVATE -Wl,--no-undefined)
endfunction()
