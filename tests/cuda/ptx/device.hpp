// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a test tells the interpreter, which stands in for the driver and the runtime of CUDA (runtime.cpp,
/// driver.cpp), and asks of it. Memory of the device is memory of the host, at the same addresses.
///
/// Environment: ECHO_PTX_REPORT, a file for what was counted of each kernel, as JSON; ECHO_PTX_DUMP, a folder for
/// the texts of all kernels that ran; ECHO_PTX_PLANT, a file with a fault to plant: kernel, line, the line's text,
/// another text.
#pragma once

#include <cstddef>

extern "C" {
/// Makes host memory the device's: exactly these bytes, of which nobody has written any.
void echo_ptx_add(void* at, std::size_t bytes, const char* name);
void echo_ptx_remove(const void* at);
/// The host, or a library, has written there; or it is as if nobody had.
void echo_ptx_written(const void* at, std::size_t bytes);
void echo_ptx_forget(const void* at, std::size_t bytes);
/// How far functions such as ex2.approx are off, of the most that they may: -1 to 1; at first 0.
void echo_ptx_approximation(double part);
/// The last fault of a kernel; empty if there was none.
const char* echo_ptx_fault();
/// The kernel that was launched last, as its symbol, and the warp instructions of all launches so far.
const char* echo_ptx_kernel();
unsigned long long echo_ptx_warp_instructions();
/// Who wrote the byte last: words.
const char* echo_ptx_writer(const void* at);
/// What the launches from here on belong to: the report has the names for each kernel.
void echo_ptx_group(const char* name);
/// The last launched kernel computed so many elements of its result: for the report.
void echo_ptx_elements(unsigned long long count, int equal);
}
