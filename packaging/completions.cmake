# cmake -DPROGRAM=PATH -DFOLDER=PATH -P completions.cmake: writes what the program prints for each shell.
cmake_path(GET PROGRAM STEM name)
foreach(shell IN ITEMS bash zsh fish)
  set(file ${FOLDER}/${name}.${shell})
  if(shell STREQUAL "zsh")
    set(file ${FOLDER}/_${name})
  endif()
  execute_process(COMMAND ${PROGRAM} --completion ${shell} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
