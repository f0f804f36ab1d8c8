# What `cmake --install` puts where, in two components: `dev`, the headers with what finds them, and `tools`, the
# commands.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/echo)

install(DIRECTORY include/echo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/echo COMPONENT dev)

# find_package(echo), where ever the prefix is moved to.
install(TARGETS echo echo-cuda EXPORT echo-targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(independent ARCH_INDEPENDENT)
if(ECHO_INSTALL_CORE)
  set(independent "")
  install(TARGETS echo-core EXPORT echo-core-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  install(EXPORT echo-core-targets NAMESPACE echo:: DESTINATION ${package_dir} COMPONENT dev)
endif()
install(EXPORT echo-targets NAMESPACE echo:: DESTINATION ${package_dir} COMPONENT dev)
write_basic_package_version_file(echo-config-version.cmake COMPATIBILITY SameMinorVersion ${independent})
install(FILES packaging/echo-config.cmake ${PROJECT_BINARY_DIR}/echo-config-version.cmake
  DESTINATION ${package_dir} COMPONENT dev)

# pkg-config. Boost has no file of its own for it; its headers are on the compiler's path or named beside.
set(pc_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)
set(pc_include ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}" AND NOT IS_ABSOLUTE "${pc_dir}")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pc_dir} OUTPUT_VARIABLE up)
  set(pc_prefix "\${pcfiledir}/${up}")
  set(pc_include "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(packaging/echo.pc.in echo.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/echo.pc DESTINATION ${pc_dir} COMPONENT dev)
