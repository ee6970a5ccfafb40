# What every target is compiled with, and the kinds of targets: a module, a test, and the tests of a module.

find_package(Threads REQUIRED)

# fx_plain_flags: of every file of ours; fx_flags: the same with the sanitizers.
add_library(fx_plain_flags INTERFACE)
add_library(fx_flags INTERFACE)
target_link_libraries(fx_flags INTERFACE fx_plain_flags)
target_compile_definitions(fx_plain_flags INTERFACE _GNU_SOURCE)
# -ffp-contract=off: fused multiply-adds are written explicitly, so that every path rounds alike.
target_compile_options(fx_plain_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
  -ffp-contract=off -fno-math-errno -fno-strict-aliasing)
if(FX_WERROR)
  target_compile_options(fx_plain_flags INTERFACE -Werror)
endif()
if(FX_COVERAGE)
  target_compile_options(fx_plain_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(fx_plain_flags INTERFACE --coverage)
endif()
if(FX_PROFILE)
  target_compile_options(fx_plain_flags INTERFACE -g -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer)
endif()
if(FX_SANITIZE)
  target_compile_options(fx_flags INTERFACE -fsanitize=${FX_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all
    # Without UBSan, code of the tests (CMAKE_FOLDER) compiles in two thirds of the time.
    $<$<STREQUAL:$<TARGET_PROPERTY:FOLDER>,tests>:-fno-sanitize=undefined>)
  target_link_options(fx_flags INTERFACE -fsanitize=${FX_SANITIZE})
endif()
if(FX_SANITIZE MATCHES thread)
  target_compile_definitions(fx_flags INTERFACE FXI_TSAN)
endif()

# fx_module(NAME LINK lib... SOURCES file...): one module of src/ as the static library NAME.
function(fx_module name)
  cmake_parse_arguments(R "" "" "LINK;SOURCES" ${ARGN})
  add_library(${name} STATIC ${R_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${R_LINK} Threads::Threads m PRIVATE fx_flags)
endfunction()

# fx_module_tests(MODULE FOLDER): adds FOLDER, whose tests belong to MODULE: `ctest -L MODULE` runs them, the target
# tests_MODULE builds what they run. A module may have several folders.
function(fx_module_tests module folder)
  set(FX_MODULE ${module})
  set(CMAKE_DIRECTORY_LABELS ${module})
  if(NOT TARGET tests_${module})
    add_custom_target(tests_${module})
  endif()
  add_subdirectory(${folder})
endfunction()

# fx_add_test(NAME COMMAND...): add_test, with a time limit and with 77 as the status of a test that cannot run here.
# Its labels are its module, and slow if FX_SLOW_TESTS says how many seconds it takes.
function(fx_add_test name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
  if(FX_SECONDS_OF_${name})
    # It starts early, so that no long test runs alone at the end.
    set_tests_properties(${name} PROPERTIES LABELS slow COST ${FX_SECONDS_OF_${name}})
  endif()
  set_property(GLOBAL APPEND PROPERTY FX_TESTS_MADE ${name})
endfunction()

# fx_suites(NAME LINK lib... SUITES file... SOURCES file... WRAP function...): a cmocka program with a suite for each of
# the files SUITES (tests/suite.h), linked with SOURCES, with calls of the functions WRAP replaced by __wrap_ functions.
# CTest runs each suite by itself, under the name of its file: `ctest -R test_beam`, or `PROGRAM test_beam`.
function(fx_suites name)
  cmake_parse_arguments(S "" "" "LINK;SUITES;SOURCES;WRAP" ${ARGN})
  set(prototypes "")
  set(rows "")
  foreach(file ${S_SUITES})
    get_filename_component(suite ${file} NAME_WE)
    list(APPEND suites ${suite})
    string(APPEND prototypes "int ${suite}(void);\n")
    string(APPEND rows "    {\"${suite}\", ${suite}},\n")
  endforeach()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${name}_list.c)
  file(CONFIGURE OUTPUT ${list} @ONLY CONTENT
    "#include \"suite.h\"\n\n@prototypes@\nconst suite suite_list[] = {\n@rows@    {0, 0},\n};\n")
  add_executable(${name} ${S_SUITES} ${S_SOURCES} ${list})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE test_main ${S_LINK} fx_flags cmocka)
  target_compile_options(${name} PRIVATE -Wno-unused-parameter) # of tests: the state that cmocka hands them
  list(TRANSFORM S_WRAP PREPEND -Wl,--wrap=)
  target_link_options(${name} PRIVATE ${S_WRAP})
  target_compile_definitions(${name} PRIVATE
    FX_SOURCE_DIR="${PROJECT_SOURCE_DIR}" FX_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_dependencies(tests_${FX_MODULE} ${name})
  foreach(suite ${suites})
    fx_add_test(${suite} ${name} ${suite})
  endforeach()
endfunction()

# fx_test(NAME LINK lib... SOURCES file... WRAP function...): a program with one suite, of the first of these files.
function(fx_test name)
  cmake_parse_arguments(T "" "" "LINK;SOURCES;WRAP" ${ARGN})
  list(POP_FRONT T_SOURCES file)
  fx_suites(${name} LINK ${T_LINK} SUITES ${file} SOURCES ${T_SOURCES} WRAP ${T_WRAP})
endfunction()
