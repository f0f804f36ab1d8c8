# The commands with their pages and completions: included behind the programs, where they are built.
#
# A page of the manual is written from `--help` by Python; a completion the command prints itself, from the options that
# it reads. echo-train is not among them: it is compiled for the machine that builds it.
set(commands echo-plan echo-arena)
set(words_of_echo-plan diff) # which stand first, and have pages of their own
install(TARGETS ${commands} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
install(FILES examples/tools/report/page/uplot_licence.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/echo COMPONENT tools)
if(CMAKE_CROSSCOMPILING OR ECHO_SANITIZE) # they would have to run here
  return()
endif()

set(zsh_dir ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
if(EXISTS /etc/debian_version)
  set(zsh_dir ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endif()
set(ECHO_ZSH_DIR ${zsh_dir} CACHE STRING "Where completions of zsh are installed")
find_package(Python3 QUIET COMPONENTS Interpreter)

set(written "")
foreach(command IN LISTS commands)
  set(folder ${PROJECT_BINARY_DIR}/share/${command})
  set(results ${folder}/${command}.bash ${folder}/_${command} ${folder}/${command}.fish)
  file(MAKE_DIRECTORY ${folder})
  set(page "")
  if(Python3_FOUND)
    list(APPEND results ${folder}/${command}.1)
    set(page COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/packaging/man_page.py $<TARGET_FILE:${command}>
      ${folder}/${command}.1)
    install(FILES ${folder}/${command}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
    foreach(word IN LISTS words_of_${command})
      list(APPEND results ${folder}/${command}-${word}.1)
      list(APPEND page COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/packaging/man_page.py $<TARGET_FILE:${command}>
        ${folder}/${command}-${word}.1 --word ${word})
      install(FILES ${folder}/${command}-${word}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
    endforeach()
  endif()
  add_custom_command(OUTPUT ${results}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${command}> -DFOLDER=${folder}
      -P ${PROJECT_SOURCE_DIR}/packaging/completions.cmake
    ${page}
    DEPENDS ${command} ${PROJECT_SOURCE_DIR}/packaging/man_page.py
      ${PROJECT_SOURCE_DIR}/packaging/completions.cmake VERBATIM)
  list(APPEND written ${results})
  install(FILES ${folder}/${command}.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME ${command} COMPONENT tools)
  install(FILES ${folder}/_${command} DESTINATION ${ECHO_ZSH_DIR} COMPONENT tools)
  install(FILES ${folder}/${command}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tools)
endforeach()
add_custom_target(echo-pages ALL DEPENDS ${written})
include(packaging/cpack.cmake)
