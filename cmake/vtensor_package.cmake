# libvtensor by itself, for those who embed it: the shared library beside the static one, and what is installed.
#
#   cmake --install BUILD --component vtensor --prefix P
#
# No installed file names P, so the package can be moved. examples/README.md says how to use it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Made of the same objects as the static library: everything here is position-independent.
add_library(vtensor_shared SHARED $<TARGET_OBJECTS:vtensor> $<TARGET_OBJECTS:vtensor_vattention>)
target_link_libraries(vtensor_shared PRIVATE Threads::Threads ${CMAKE_DL_LIBS} fx_flags)
target_link_options(vtensor_shared PRIVATE -Wl,--as-needed)
if(NOT FX_SANITIZE) # the program brings the sanitizers' runtime
  target_link_options(vtensor_shared PRIVATE -Wl,--no-undefined)
endif()
set_target_properties(vtensor_shared PROPERTIES OUTPUT_NAME vtensor EXPORT_NAME vtensor
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(vtensor_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# Outside of this build the static library exposes only its public headers, and none of our flags.
set_target_properties(vtensor PROPERTIES EXPORT_NAME vtensor_static
  INTERFACE_INCLUDE_DIRECTORIES "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include;${PROJECT_SOURCE_DIR}/src>;$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
  INTERFACE_LINK_LIBRARIES "$<BUILD_INTERFACE:$<LINK_ONLY:fx_flags>>;Threads::Threads;${CMAKE_DL_LIBS}")

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME vtensor) # for everything below
install(TARGETS vtensor vtensor_shared EXPORT vtensorTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/vtensor DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN *.h)
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/libvtensor.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)

# CMake
set(vt_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vtensor)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/vtensorConfig.cmake.in vtensorConfig.cmake
  INSTALL_DESTINATION ${vt_cmake_dir})
write_basic_package_version_file(vtensorConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vtensorConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/vtensorConfigVersion.cmake
  DESTINATION ${vt_cmake_dir})
install(EXPORT vtensorTargets NAMESPACE vtensor:: DESTINATION ${vt_cmake_dir})

# pkg-config
set(vt_pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH vt_pc_to_prefix ${vt_pc_dir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" vt_pc_to_prefix ${vt_pc_to_prefix})
file(RELATIVE_PATH vt_pc_to_include ${vt_pc_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE vt_pc_dl)
configure_file(${CMAKE_CURRENT_LIST_DIR}/vtensor.pc.in vtensor.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vtensor.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
