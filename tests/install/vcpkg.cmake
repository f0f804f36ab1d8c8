# cmake -DPORT_DIR=… -DPACKAGES=… -DBUILD=… -DGENERATOR=… -DCOMPILER=… -P vcpkg.cmake
# Runs the port as vcpkg does, which is a CMake script with these functions. They do what vcpkg's documentation says of
# them, for one build type; vcpkg itself comes from nowhere that tests may download from.
cmake_minimum_required(VERSION 3.25)
set(PORT echo)
set(CURRENT_PACKAGES_DIR ${PACKAGES})

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vcpkg_cmake_configure does not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${BUILD} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} ${arg_OPTIONS}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --target install OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
  set(to ${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME})
  file(GLOB files ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*)
  if(NOT files)
    message(FATAL_ERROR "nothing was installed to ${arg_CONFIG_PATH}")
  endif()
  file(COPY ${files} DESTINATION ${to})
  file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/share/cmake)
  file(GLOB targets ${to}/*-targets.cmake)
  set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
  foreach(file IN LISTS targets) # one folder less above it
    file(READ ${file} text)
    string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
  file(GLOB files ${CURRENT_PACKAGES_DIR}/share/pkgconfig/*.pc ${CURRENT_PACKAGES_DIR}/lib/pkgconfig/*.pc)
  if(NOT files)
    message(FATAL_ERROR "there is no file of pkg-config")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(READ ${arg_FILE_LIST} text)
  file(WRITE ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright "${text}")
endfunction()

include(${PORT_DIR}/portfile.cmake)

# What vcpkg looks at after every port.
foreach(needed IN ITEMS include/echo/echo.hpp share/echo/copyright share/echo/echo-config.cmake share/echo/usage)
  if(NOT EXISTS ${PACKAGES}/${needed})
    message(FATAL_ERROR "the port installs no ${needed}")
  endif()
endforeach()
file(GLOB top RELATIVE ${PACKAGES} ${PACKAGES}/*)
if(NOT top STREQUAL "include;share")
  message(FATAL_ERROR "a header-only port holds include and share, and this one ${top}")
endif()
