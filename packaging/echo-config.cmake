# What find_package(echo) reads.
include(CMakeFindDependencyMacro)
find_package(Boost 1.74 QUIET) # only some headers need it: see docs/install.md
foreach(component IN LISTS echo_FIND_COMPONENTS)
  if(component STREQUAL "cuda") # echo::cuda then links the runtime
    find_dependency(CUDAToolkit)
    set(echo_cuda_FOUND TRUE)
  elseif(echo_FIND_REQUIRED_${component})
    set(echo_FOUND FALSE)
    set(echo_NOT_FOUND_MESSAGE "echo has no component ${component}: there is cuda")
    return()
  endif()
endforeach()
include("${CMAKE_CURRENT_LIST_DIR}/echo-targets.cmake")
