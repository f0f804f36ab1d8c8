// SPDX-License-Identifier: BSL-1.0
// Stands in for libcuda, one card, whose kernels do nothing, and for NVRTC, whose code is the architecture's name
// (the real one looks into libcuda itself). See fake_cuda.hpp.
#include "fake_cuda.hpp"

#include <cstring>
#include <string>
#include <utility>

namespace {

fake_cuda state;
int here;          // an address for everything but
int functions[16]; // what is found in what was loaded
std::string code;

} // namespace

extern "C" {

int cuInit(unsigned);
int cuGetErrorName(int, const char** name);
int cuGetErrorString(int, const char** words);
int cuCtxGetCurrent(void** context);
int cuCtxGetId(void* context, unsigned long long* number);
int cuCtxGetDevice(int* device);
int cuDeviceGetAttribute(int* value, int which, int device);
int cuModuleLoadData(void** loaded, const void* code);
int cuModuleUnload(void* loaded);
int cuModuleGetFunction(void** function, void* from, const char* name);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads,
                                                std::size_t dynamic);
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned, void* stream, void** arguments, void** extra);

int nvrtcVersion(int* major, int* minor);
const char* nvrtcGetErrorString(int);
int nvrtcGetNumSupportedArchs(int* count);
int nvrtcGetSupportedArchs(int* architectures);
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*, const char* const*);
int nvrtcDestroyProgram(void** program);
int nvrtcCompileProgram(void*, int count, const char* const* options);
int nvrtcGetProgramLogSize(void*, std::size_t* size);
int nvrtcGetProgramLog(void*, char* text);
int nvrtcGetPTXSize(void*, std::size_t* size);
int nvrtcGetPTX(void*, char* text);
int nvrtcGetCUBINSize(void*, std::size_t* size);
int nvrtcGetCUBIN(void*, char* bytes);

fake_cuda* echo_fake_cuda() { return &state; }

int cuInit(unsigned) { return 0; }
int cuGetErrorName(int, const char** name) {
    *name = "CUDA_ERROR_FAKE";
    return 0;
}
int cuGetErrorString(int, const char** words) {
    *words = "as it was told";
    return 0;
}
int cuCtxGetCurrent(void** context) {
    *context = state.context ? &here : nullptr; // each at the same address
    return 0;
}
int cuCtxGetId(void*, unsigned long long* number) {
    *number = state.context;
    return 0;
}
int cuCtxGetDevice(int* device) {
    *device = 0;
    return 0;
}
int cuDeviceGetAttribute(int* value, int which, int) {
    *value = which == 75   ? state.architecture / 10
             : which == 76 ? state.architecture % 10
                           : state.multiprocessors;
    return 0;
}
int cuModuleLoadData(void** loaded, const void*) {
    ++state.loaded;
    *loaded = &here;
    return 0;
}
int cuModuleUnload(void*) {
    ++state.unloaded;
    return 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
    *function = &functions[state.loaded % 16];
    return std::strcmp(name, "echo_fused") == 0 ? std::exchange(state.find, 0) : 500;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, std::size_t) {
    *blocks = state.resident;
    return 0;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned, void* stream, void** arguments, void**) {
    ++state.launched;
    state.function = function, state.blocks = blocks, state.threads = threads, state.stream = stream;
    std::memcpy(state.parameters, arguments[0], sizeof state.parameters);
    return std::exchange(state.launch, 0);
}

int nvrtcVersion(int* major, int* minor) {
    *major = 13, *minor = 0;
    return 0;
}
const char* nvrtcGetErrorString(int) { return "as it was told"; }
int nvrtcGetNumSupportedArchs(int* count) {
    *count = 2;
    return 0;
}
int nvrtcGetSupportedArchs(int* architectures) {
    architectures[0] = 75, architectures[1] = 90;
    return 0;
}
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*,
                       const char* const*) {
    *program = &here;
    return 0;
}
int nvrtcDestroyProgram(void**) { return 0; }
int nvrtcCompileProgram(void*, int, const char* const* options) {
    code = options[0];
    return 0;
}
int nvrtcGetProgramLogSize(void*, std::size_t* size) {
    *size = 1;
    return 0;
}
int nvrtcGetProgramLog(void*, char* text) {
    *text = 0;
    return 0;
}
int nvrtcGetPTXSize(void*, std::size_t* size) {
    *size = code.size();
    return 0;
}
int nvrtcGetPTX(void*, char* text) {
    code.copy(text, code.size());
    return 0;
}
int nvrtcGetCUBINSize(void* program, std::size_t* size) { return nvrtcGetPTXSize(program, size); }
int nvrtcGetCUBIN(void* program, char* bytes) { return nvrtcGetPTX(program, bytes); }

} // extern "C"
