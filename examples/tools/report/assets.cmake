# Texts of the report as C++: include(assets.cmake) sets ECHO_REPORT_ASSETS, a source file that is written while building.
# The plotting library uPlot comes from a package, once, and lies in a cache; where it cannot be had, programs are built
# without it and say so when a report is asked for. Needs an interpreter, found as Python or Python3.
set(ECHO_UPLOT_DIR "$ENV{HOME}/.cache/echo/uplot-1.6.31" CACHE PATH "Folder with uPlot.iife.min.js and uPlot.min.css")
option(ECHO_FETCH_UPLOT "Let get_uplot.py fill ECHO_UPLOT_DIR where it is empty" ON)
set(page_uplot ${ECHO_UPLOT_DIR}/uPlot.iife.min.js ${ECHO_UPLOT_DIR}/uPlot.min.css)
set(page_python ${Python_EXECUTABLE} ${Python3_EXECUTABLE})
if(ECHO_FETCH_UPLOT AND page_python AND NOT EXISTS "${ECHO_UPLOT_DIR}/uPlot.iife.min.js")
  list(GET page_python 0 page_python)
  execute_process(COMMAND ${page_python} ${CMAKE_CURRENT_LIST_DIR}/get_uplot.py ${ECHO_UPLOT_DIR}
    ERROR_VARIABLE page_problem ERROR_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT EXISTS "${ECHO_UPLOT_DIR}/uPlot.iife.min.js" OR NOT EXISTS "${ECHO_UPLOT_DIR}/uPlot.min.css")
  message(STATUS "Without uPlot no report is drawn: python3 examples/tools/report/get_uplot.py ${page_problem}")
  set(page_uplot "")
endif()

set(page_scripts data.js words.js along.js stack.js canvas.js theme.js tooltip.js memory.js arena.js front.js table.js tables.js main.js)
list(TRANSFORM page_scripts PREPEND ${CMAKE_CURRENT_LIST_DIR}/page/ OUTPUT_VARIABLE page_files)
foreach(page_file page.html style.css uplot_licence.txt)
  list(APPEND page_files ${CMAKE_CURRENT_LIST_DIR}/page/${page_file})
endforeach()
set(ECHO_REPORT_ASSETS ${CMAKE_CURRENT_BINARY_DIR}/assets.cpp)
add_custom_command(OUTPUT ${ECHO_REPORT_ASSETS}
  COMMAND ${CMAKE_COMMAND} -D OUT=${ECHO_REPORT_ASSETS} -D PAGE=${CMAKE_CURRENT_LIST_DIR}/page
    "-DSCRIPTS=${page_scripts}" -D UPLOT=${ECHO_UPLOT_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/embed.cmake ${page_files} ${page_uplot} VERBATIM)
