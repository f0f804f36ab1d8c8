# Runs within cpack before a package is closed: what Debian's policy asks for besides. For other packages it does
# nothing.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()

# A licence as `copyright` takes it: indented, and with a dot on lines that are empty.
function(read_licence file result)
  file(READ ${file} text)
  string(REGEX REPLACE "\n+$" "" text "${text}")
  string(REPLACE "\n\n" "\n.\n" text "${text}")
  string(REPLACE "\n" "\n " text "${text}")
  set(${result} " ${text}" PARENT_SCOPE)
endfunction()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX})
  if(NOT IS_DIRECTORY ${root})
    message(FATAL_ERROR "${root} is not there: nothing was installed of the component ${component}")
  endif()
  set(documents ${root}/share/doc/${name})

  read_licence(${CPACK_RESOURCE_FILE_LICENSE} licence)
  file(REMOVE_RECURSE ${root}/share/licenses) # Debian has the licence in `copyright`
  file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Echo

Files: *
Copyright: 2026 Echo's authors
License: BSL-1.0

License: BSL-1.0
${licence}
")
  if(component STREQUAL "tools") # echo-plan holds the library that draws its reports
    read_licence(${CPACK_ECHO_UPLOT_LICENCE} licence)
    string(REGEX MATCH "Copyright [^\n]*" holder "${licence}")
    string(REPLACE "Copyright " "" holder "${holder}")
    file(APPEND ${documents}/copyright "
Files: usr/bin/echo-plan
Copyright: 2026 Echo's authors, and of uPlot in it: ${holder}
License: BSL-1.0 and Expat

License: Expat
${licence}
")
  endif()
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
