// SPDX-License-Identifier: BSL-1.0
/// @file
/// What Echo asks of the compiler. The only header that leaves macros behind, but for version.hpp, and
/// none of them is for users to set.
#pragma once

#if !defined(__cplusplus) || (__cplusplus < 202002L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 202002L))
#error "Echo needs C++20: compile with -std=c++20 or later"
#endif

/// Functions that also run on a device. Collapses to nothing where no CUDA compiler is at work.
#if defined(__CUDACC__)
#define ECHO_HOST_DEVICE __host__ __device__
#else
#define ECHO_HOST_DEVICE
#endif
