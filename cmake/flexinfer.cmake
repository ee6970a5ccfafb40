# What every target is compiled with, and the two shapes of target there are: a room and a test.

find_package(Threads REQUIRED)

add_library(fx_flags INTERFACE)
target_compile_definitions(fx_flags INTERFACE _GNU_SOURCE)
# -ffp-contract=off: a fused multiply-add is written where it is meant, so that every path rounds alike.
target_compile_options(fx_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
  -ffp-contract=off -fno-math-errno -fno-strict-aliasing)
if(FX_WERROR)
  target_compile_options(fx_flags INTERFACE -Werror)
endif()
if(FX_SANITIZE)
  target_compile_options(fx_flags INTERFACE -fsanitize=${FX_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(fx_flags INTERFACE -fsanitize=${FX_SANITIZE})
endif()
if(FX_SANITIZE MATCHES thread)
  target_compile_definitions(fx_flags INTERFACE FXI_TSAN)
endif()

# fx_room(NAME LINK lib... SOURCES file...): one room of src/ as the static library NAME.
function(fx_room name)
  cmake_parse_arguments(R "" "" "LINK;SOURCES" ${ARGN})
  add_library(${name} STATIC ${R_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${R_LINK} Threads::Threads m PRIVATE fx_flags)
endfunction()

# fx_test(NAME LINK lib... SOURCES file...): a cmocka program, run by CTest under its own name.
function(fx_test name)
  cmake_parse_arguments(T "" "" "LINK;SOURCES" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${T_LINK} fx_flags cmocka)
  target_compile_definitions(${name} PRIVATE
    FX_SOURCE_DIR="${PROJECT_SOURCE_DIR}" FX_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endfunction()
