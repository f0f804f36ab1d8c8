# cmake -DCOMPILER=… -DSOURCE=… -DINCLUDES=… -P reject.cmake
# SOURCE compiles as it is. With REJECT defined, or with the options that it names instead, it does not, and the compiler
# says the words of its first lines, each of them:
#   // expect: words
#   // options: -fno-exceptions
file(STRINGS ${SOURCE} head)
set(expected "")
set(options -DREJECT)
foreach(line IN LISTS head)
  if(line MATCHES "^// expect: (.*[^ ]) *$")
    list(APPEND expected "${CMAKE_MATCH_1}")
  elseif(line MATCHES "^// options: (.*[^ ]) *$")
    separate_arguments(options UNIX_COMMAND "${CMAKE_MATCH_1}")
  else()
    break()
  endif()
endforeach()
if(NOT expected)
  message(FATAL_ERROR "${SOURCE}:1: the first line must be '// expect: words'")
endif()

set(command ${COMPILER} -std=c++20 -fsyntax-only)
if(COMPILER MATCHES "clang")
  list(APPEND command -ferror-limit=0)
endif()
foreach(directory IN LISTS INCLUDES)
  list(APPEND command -I${directory})
endforeach()

execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE status ERROR_VARIABLE said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} must compile without ${options}:\n${said}")
endif()

execute_process(COMMAND ${command} ${options} ${SOURCE} RESULT_VARIABLE status ERROR_VARIABLE said)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} must not compile with ${options}, but does")
endif()
foreach(words IN LISTS expected)
  string(FIND "${said}" "${words}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${SOURCE} is refused, but without the words '${words}':\n${said}")
  endif()
endforeach()
