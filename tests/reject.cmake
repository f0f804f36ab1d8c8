# cmake -DCOMPILER=… -DSOURCE=… -DINCLUDES=… -P reject.cmake
# SOURCE compiles as it is. With REJECT defined it does not, and the compiler says the words of its first line:
#   // expect: words
file(STRINGS ${SOURCE} first LIMIT_COUNT 1)
if(NOT first MATCHES "^// expect: (.*[^ ]) *$")
  message(FATAL_ERROR "${SOURCE}:1: the first line must be '// expect: words'")
endif()
set(words "${CMAKE_MATCH_1}")

set(command ${COMPILER} -std=c++20 -fsyntax-only)
foreach(directory IN LISTS INCLUDES)
  list(APPEND command -I${directory})
endforeach()

execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE status ERROR_VARIABLE said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} must compile without REJECT:\n${said}")
endif()

execute_process(COMMAND ${command} -DREJECT ${SOURCE} RESULT_VARIABLE status ERROR_VARIABLE said)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} must not compile with REJECT, but does")
endif()
string(FIND "${said}" "${words}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${SOURCE} is refused, but without the words '${words}':\n${said}")
endif()
