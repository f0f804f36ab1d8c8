# `cpack` in the build tree: echo-VERSION-SYSTEM.tar.gz with everything, libecho-dev_VERSION_all.deb with the headers
# and echo-tools_VERSION_ARCH.deb with the commands.
set(CPACK_GENERATOR TGZ)
find_program(dpkg_deb dpkg-deb)
if(dpkg_deb)
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME echo)
set(CPACK_PACKAGE_VENDOR Echo)
set(CPACK_PACKAGE_CONTACT "Echo's maintainers <maintainers@users.noreply.a-seed-f514322a.example>" CACHE STRING
  "Whom the packages name as their maintainer")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "memory optimiser for the training graphs of neural networks")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_RESOURCE_FILE_README ${PROJECT_SOURCE_DIR}/README.md)
set(CPACK_ECHO_UPLOT_LICENCE ${PROJECT_SOURCE_DIR}/examples/tools/report/page/uplot_licence.txt)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dev tools)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libecho-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS libboost-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS echo-tools)
set(CPACK_COMPONENT_DEV_DESCRIPTION "Echo decides which feature maps of a training step are kept, which
are computed again and which are kept in one bit per element, and
lays the tensors that remain out in one arena.
.
This package holds the headers, which are compiled into an engine,
and what CMake and pkg-config find them by.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME echo-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
find_program(dpkg_shlibdeps dpkg-shlibdeps)
if(dpkg_shlibdeps)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Echo decides which feature maps of a training step are kept, which
are computed again and which are kept in one bit per element, and
lays the tensors that remain out in one arena.
.
This package holds the commands: echo-plan plans a training graph from
a file, and echo-arena places buffers with known lifetimes.")
include(CPack)
