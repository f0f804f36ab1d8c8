// SPDX-License-Identifier: BSL-1.0
/// @file
/// What Echo asks of the compiler. Every other header includes this one before anything else. The only header that
/// leaves macros behind, but for version.hpp, and none of them is for users to set: `ECHO_CORE` is set by
/// the target `echo::core`.
#pragma once

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#if defined(_MSC_VER) && !defined(__clang__)
#error "Echo needs C++20: compile with /std:c++20 or later"
#else // behind an #error these compilers go on, with hundreds of errors; a header that is missing ends them
#include <Echo needs C++20: compile with -std=c++20 or later>
#endif
#endif

/// Functions that also run on a device. Collapses to nothing where no CUDA compiler is at work.
#if defined(__CUDACC__)
#define ECHO_HOST_DEVICE __host__ __device__
#else
#define ECHO_HOST_DEVICE
#endif

/// Functions that `echo::core` has compiled: its users see declarations, everyone else inline functions.
#if defined(ECHO_CORE)
#define ECHO_INLINE
#else
#define ECHO_INLINE inline
#endif
