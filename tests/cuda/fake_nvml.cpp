// SPDX-License-Identifier: BSL-1.0
// Stands in for NVML: one card with fixed figures, and the faults that ECHO_FAKE_NVML asks for.
#include <cstdlib>
#include <cstring>

namespace {

int one_card;

bool asked(const char* fault) {
    const char* const how = std::getenv("ECHO_FAKE_NVML");
    return how && std::strcmp(how, fault) == 0;
}

} // namespace

extern "C" {

int nvmlInit_v2();
int nvmlShutdown();
int nvmlSystemGetDriverVersion(char* text, unsigned length);
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device);
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts);
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules);
int nvmlDeviceGetClockInfo(void* device, int which, unsigned* megahertz);

int nvmlInit_v2() {
    if (asked("no driver")) return 9;
    setenv("ECHO_FAKE_NVML_STATE", "started", 1);
    return 0;
}

int nvmlShutdown() {
    setenv("ECHO_FAKE_NVML_STATE", "shut down", 1);
    return 0;
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
    const char version[] = "580.159.03";
    if (length < sizeof version) return 7;
    std::memcpy(text, version, sizeof version);
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
    if (std::strcmp(bus, "0000:3b:00.0") != 0) return 6;
    *device = &one_card;
    return 0;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    if (device != &one_card) return 2;
    *milliwatts = 312500;
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
    if (device != &one_card) return 2;
    if (asked("no energy")) return 3;
    *millijoules = 5'000'000'000'250;
    return 0;
}

int nvmlDeviceGetClockInfo(void* device, int which, unsigned* megahertz) {
    if (device != &one_card || which < 0 || which > 3) return 2;
    const unsigned clocks[] = {1980, 1980, 3201, 1500};
    *megahertz = clocks[which];
    return 0;
}

} // extern "C"
