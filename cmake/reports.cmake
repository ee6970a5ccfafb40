# Targets that write reports; the programs they need are in `tools/packages list extra`.
#
#   coverage   what the tests of a build with FX_COVERAGE have covered so far: BUILD/coverage/index.html, and a summary
#   docs       the public headers as pages: BUILD/docs/html/index.html

# fx_report(NAME PROGRAM COMMAND ..): the target NAME, which fails with a message if PROGRAM is missing.
function(fx_report name program)
  find_program(FX_PROGRAM_${program} ${program})
  mark_as_advanced(FX_PROGRAM_${program})
  if(FX_PROGRAM_${program})
    add_custom_target(${name} ${ARGN} VERBATIM)
  else()
    add_custom_target(${name} COMMAND ${CMAKE_COMMAND} -E echo "${name}: ${program} is not installed"
      COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
  endif()
endfunction()

if(FX_COVERAGE)
  set(folder ${PROJECT_BINARY_DIR}/coverage)
  fx_report(coverage gcovr
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND gcovr --root ${PROJECT_SOURCE_DIR} --filter src/ --object-directory ${PROJECT_BINARY_DIR}
      --gcov-ignore-parse-errors --exclude-unreachable-branches --html-details ${folder}/index.html
      --print-summary --txt ${folder}/lines.txt
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endif()

set(FX_DOCS ${PROJECT_BINARY_DIR}/docs)
configure_file(${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in ${FX_DOCS}/Doxyfile @ONLY)
fx_report(docs doxygen
  COMMAND doxygen ${FX_DOCS}/Doxyfile
  COMMAND ${CMAKE_COMMAND} -E echo "docs: ${FX_DOCS}/html/index.html"
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
