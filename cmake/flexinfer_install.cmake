# The program by itself: the binary and its manual page.
#
#   cmake --install BUILD --component flexinfer --prefix P     the program
#   cmake --install BUILD --prefix P                           the program and libvtensor
#
# The program needs only shared libraries of the system, so it can be moved.
include(GNUInstallDirs)

install(TARGETS flexinfer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT flexinfer)
install(FILES ${PROJECT_BINARY_DIR}/man/flexinfer.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT flexinfer)

set(completion ${PROJECT_SOURCE_DIR}/dist/completion)
install(FILES ${completion}/flexinfer.bash RENAME flexinfer COMPONENT flexinfer
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${completion}/_flexinfer DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT flexinfer)
install(FILES ${completion}/flexinfer.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  COMPONENT flexinfer)
