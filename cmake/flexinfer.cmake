# What every target is compiled with, and the kinds of targets: a room, a test, and the tests of a room.

find_package(Threads REQUIRED)

add_library(fx_flags INTERFACE)
target_compile_definitions(fx_flags INTERFACE _GNU_SOURCE)
# -ffp-contract=off: fused multiply-adds are written explicitly, so that every path rounds alike.
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
if(FX_COVERAGE)
  target_compile_options(fx_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(fx_flags INTERFACE --coverage)
endif()
if(FX_PROFILE)
  target_compile_options(fx_flags INTERFACE -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer)
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

# fx_room_tests(ROOM FOLDER): adds FOLDER, whose tests belong to ROOM: `ctest -L ROOM` runs them, the target tests_ROOM
# builds what they run. A room may have several folders.
function(fx_room_tests room folder)
  set(FX_ROOM ${room})
  set(CMAKE_DIRECTORY_LABELS ${room})
  if(NOT TARGET tests_${room})
    add_custom_target(tests_${room})
  endif()
  add_subdirectory(${folder})
endfunction()

# fx_test(NAME LINK lib... SOURCES file...): a cmocka program, run by CTest under its own name. Its labels are its room,
# and unit or slow: `./check --quick` runs those labelled unit.
function(fx_test name)
  cmake_parse_arguments(T "" "" "LINK;SOURCES" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${T_LINK} fx_flags cmocka)
  target_compile_definitions(${name} PRIVATE
    FX_SOURCE_DIR="${PROJECT_SOURCE_DIR}" FX_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set(label unit)
  if(name IN_LIST FX_SLOW_TESTS)
    set(label slow)
  endif()
  add_dependencies(tests_${FX_ROOM} ${name})
  add_dependencies(tests_${label} ${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 LABELS ${label})
  if(label STREQUAL slow)
    set_tests_properties(${name} PROPERTIES COST 20) # starts early, so that no long test runs alone at the end
  endif()
endfunction()
