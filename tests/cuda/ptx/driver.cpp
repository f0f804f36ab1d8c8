// SPDX-License-Identifier: BSL-1.0
// Stands in for libcuda, as far as generated kernels need it: one card, newer than any that NVRTC knows, so that it
// is given PTX.
#include "state.hpp"

#include <cstddef>
#include <string>

namespace {

int here; // an address for everything but
int generated = 0;

// Few blocks, so that a warp takes several tiles of a small tensor.
constexpr int multiprocessors = 2, resident = 1;

ptx::device_state& state() { return ptx::device_state::get(); }

} // namespace

extern "C" {

int cuInit(unsigned) { return 0; }
/// NVRTC asks for what is not documented, and goes on without.
int cuGetExportTable(const void** table, const void*) {
    *table = nullptr;
    return 500; // CUDA_ERROR_NOT_FOUND
}
int cuDriverGetVersion(int* version) {
    *version = 13000;
    return 0;
}
int cuGetErrorName(int, const char** name) {
    *name = "CUDA_ERROR";
    return 0;
}
int cuGetErrorString(int, const char** words) {
    *words = state().fault.c_str();
    return 0;
}
int cuCtxGetCurrent(void** context) {
    *context = &here;
    return 0;
}
int cuCtxGetId(void*, unsigned long long* number) {
    *number = 1;
    return 0;
}
int cuCtxGetDevice(int* device) {
    *device = 0;
    return 0;
}
int cuDeviceGetAttribute(int* value, int which, int) {
    *value = which == 75 ? 12 : which == 76 ? 9 : multiprocessors; // COMPUTE_CAPABILITY_MAJOR, _MINOR
    return 0;
}
int cuModuleLoadData(void** loaded, const void* code) {
    const std::string text(static_cast<const char*>(code));
    if (text.find(".version") == text.npos) return 200; // CUDA_ERROR_INVALID_IMAGE
    char name[32];
    std::snprintf(name, sizeof name, "generated-%03d", generated++);
    *loaded = &state().add_module(name, text);
    return 0;
}
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** function, void* from, const char* name) {
    if (std::string(name) != "echo_fused") return 500; // CUDA_ERROR_NOT_FOUND
    *function = from;                                  // each module has one
    return 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, std::size_t) {
    *blocks = resident;
    return 0;
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
                   unsigned threads_z, unsigned shared, void*, void** arguments, void**) {
    return state().launch(*static_cast<ptx::module*>(function), "echo_fused", {x, y, z},
                          {threads, threads_y, threads_z}, shared, arguments);
}

} // extern "C"
