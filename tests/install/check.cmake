# cmake -DHOW=… -DSOURCE=… -DBUILD=… -DCOMPILER=… -DGENERATOR=… -DVERSION=… [-DNVCC=…] [-DCORE=ON] [-DWITHOUT=Boost;…] -P check.cmake
# Configures, builds and runs the project next to this file, with Echo taken in by HOW, and by no option of Echo's.
function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${said}")
  endif()
endfunction()

file(REMOVE_RECURSE ${BUILD})
set(toolchain -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER})
set(options "")
if(NVCC)
  set(options -DCUDA=ON -DCMAKE_CUDA_COMPILER=${NVCC} -DCMAKE_CUDA_ARCHITECTURES=75)
endif()
foreach(package IN LISTS WITHOUT) # as on a machine that does not have it
  list(APPEND options -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
if(HOW STREQUAL "find_package")
  set(core "")
  if(CORE)
    set(core -DECHO_INSTALL_CORE=ON -DCMAKE_CXX_FLAGS=-O0)
  endif()
  step(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD}/echo ${toolchain} -DCMAKE_INSTALL_PREFIX=${BUILD}/prefix ${options} ${core})
  step(${CMAKE_COMMAND} --build ${BUILD}/echo)
  step(${CMAKE_COMMAND} --install ${BUILD}/echo)
  list(APPEND options -DCMAKE_PREFIX_PATH=${BUILD}/prefix)

  # A component that Echo does not have is refused, in one sentence.
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${BUILD}/refused ${toolchain} -DHOW=${HOW}
    -DVERSION=${VERSION} -DMORE_COMPONENTS=opencl ${options} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
  if(status EQUAL 0 OR NOT said MATCHES "echo has no component opencl: there are core and cuda")
    message(FATAL_ERROR "The component opencl is not refused: ${status}\n${said}")
  endif()
endif()

if(CORE)
  list(APPEND options -DCORE=ON)
elseif(HOW STREQUAL "find_package") # so is one that was not installed
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${BUILD}/refused ${toolchain} -DHOW=${HOW}
    -DVERSION=${VERSION} -DMORE_COMPONENTS=core ${options} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
  if(status EQUAL 0 OR NOT said MATCHES "echo was installed without echo::core")
    message(FATAL_ERROR "The component core is not refused: ${status}\n${said}")
  endif()
endif()
step(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${BUILD}/consumer ${toolchain}
  -DHOW=${HOW} -DECHO_SOURCE=${SOURCE} -DVERSION=${VERSION} ${options})
step(${CMAKE_COMMAND} --build ${BUILD}/consumer)
step(${BUILD}/consumer/consumer)
step(${BUILD}/consumer/consumer-arena)
if(CORE)
  step(${BUILD}/consumer/consumer-core)
endif()
if(NVCC)
  step(${BUILD}/consumer/consumer-cuda)
endif()
