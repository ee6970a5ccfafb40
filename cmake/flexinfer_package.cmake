# flexinfer as a Debian package: cmake --build BUILD --target package (docs/user/install.md).
#
# Beside the program it has what a service needs: unit, configuration, user. These are installed only in the package,
# because they name places outside of the prefix.
set(dist ${PROJECT_SOURCE_DIR}/dist)
set(service COMPONENT service EXCLUDE_FROM_ALL)
install(FILES ${dist}/systemd/flexinfer.service DESTINATION lib/systemd/system ${service})
install(FILES ${dist}/flexinfer.conf DESTINATION /etc/flexinfer ${service})
install(FILES ${dist}/debian/copyright ${PROJECT_SOURCE_DIR}/docs/user/api.md ${dist}/grafana/flexinfer.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/flexinfer ${service})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME flexinfer)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "server for language models with a KV cache in virtual memory")
set(CPACK_PACKAGE_DESCRIPTION "flexinfer serves language models (GGUF files, Hugging Face folders) on the CPU through
an OpenAI-compatible HTTP interface. The memory of its KV cache follows the
tokens that there are: idle memory goes back to the system.")
set(CPACK_PACKAGE_CONTACT "the flexinfer maintainers <maintainers@flexinfer.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL flexinfer service)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# useradd, in postinst; whom to trust when a model is fetched
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(script postinst prerm postrm conffiles)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${dist}/debian/${script})
endforeach()
include(CPack)
