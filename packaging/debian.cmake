# Runs within cpack before a package is closed: what Debian's policy asks for besides. For other packages it does
# nothing.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX})
  if(NOT IS_DIRECTORY ${root})
    message(FATAL_ERROR "${root} is not there: nothing was installed of the component ${component}")
  endif()
  set(documents ${root}/share/doc/${name})

  file(READ ${CPACK_RESOURCE_FILE_LICENSE} licence)
  file(REMOVE_RECURSE ${root}/share/licenses) # Debian has the licence in `copyright`
  string(REGEX REPLACE "\n+$" "" licence "${licence}")
  string(REPLACE "\n\n" "\n.\n" licence "${licence}")
  string(REPLACE "\n" "\n " licence "${licence}")
  file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Echo

Files: *
Copyright: 2026 Echo's authors
License: BSL-1.0

License: BSL-1.0
 ${licence}
")
  set(stamp "$ENV{SOURCE_DATE_EPOCH}")
  if(stamp STREQUAL "")
    file(TIMESTAMP ${CPACK_RESOURCE_FILE_LICENSE} date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  else()
    string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # CMake takes SOURCE_DATE_EPOCH for the time
  endif()
  file(WRITE ${documents}/changelog "${name} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(GLOB pages ${root}/share/man/man1/*.1)
  foreach(file IN LISTS pages ITEMS ${documents}/changelog)
    execute_process(COMMAND gzip -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  file(GLOB_RECURSE files LIST_DIRECTORIES true ${root}/*) # whatever the mask was
  foreach(file IN LISTS files)
    if(IS_DIRECTORY ${file} OR file MATCHES "/bin/[^/]+$")
      file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    else()
      file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    endif()
  endforeach()
endforeach()
