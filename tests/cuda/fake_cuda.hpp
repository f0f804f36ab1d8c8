// SPDX-License-Identifier: BSL-1.0
/// @file
/// What fake_cuda.cpp, which stands in for the driver, is told and tells.
#pragma once

#include <cstddef>

struct fake_cuda {
    // What it answers.
    unsigned long long context = 1; ///< number of the calling thread's context; 0: there is none
    int architecture = 90, multiprocessors = 4, resident = 3;
    int find = 0;   ///< code of the next cuModuleGetFunction
    int launch = 0; ///< code of the next cuLaunchKernel
    // What it was asked.
    int loaded = 0, unloaded = 0, launched = 0;
    unsigned blocks = 0, threads = 0;
    void* stream = nullptr;
    void* function = nullptr;
    unsigned char parameters[912] = {}; ///< of the last launch
};

extern "C" fake_cuda* echo_fake_cuda();
