// SPDX-License-Identifier: BSL-1.0
/// @file
/// `power_meter`: what a card draws, its energy and its clocks, read from NVML. The library is opened at run
/// time and its few functions are declared here, so that nothing need be installed to build; where it is
/// missing, the meter says so.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace echo::cuda {

/// Why a meter gives no figures.
enum class power_source : std::uint8_t {
    available,
    no_library,   ///< NVML is not installed: it comes with the driver
    no_functions, ///< the library lacks a function: not NVML, or too old
    no_driver,    ///< NVML does not start
    no_device,    ///< NVML does not know the card
};

/// Why there are no figures, in words.
constexpr std::string_view words(power_source s) noexcept {
    switch (s) {
    case power_source::available:
        return "available";
    case power_source::no_library:
        return "not available: NVML (libnvidia-ml.so.1) is not installed";
    case power_source::no_functions:
        return "not available: the NVML library lacks a function";
    case power_source::no_driver:
        return "not available: NVML finds no driver";
    case power_source::no_device:
        return "not available: NVML does not know the card";
    }
    return {};
}

/// Reads one card. Never throws for what is not there: `source()` says why, and every figure is empty then.
/// Figures that a card does not offer, such as the energy before Volta, are empty by themselves.
class power_meter {
public:
    /// The card at a PCI address, such as `device_properties::bus`. `library` is for tests.
    explicit power_meter(const std::string& bus, const char* library = "libnvidia-ml.so.1") {
        library_.reset(dlopen(library, RTLD_NOW | RTLD_LOCAL));
        if (!library_) return;
        source_ = power_source::no_functions;
        init_type* init = nullptr;
        handle_type* handle = nullptr;
        if (!find(init, "nvmlInit_v2") || !find(shutdown_, "nvmlShutdown") ||
            !find(handle, "nvmlDeviceGetHandleByPciBusId_v2") || !find(power_, "nvmlDeviceGetPowerUsage") ||
            !find(energy_, "nvmlDeviceGetTotalEnergyConsumption") ||
            !find(clock_, "nvmlDeviceGetClockInfo") || !find(driver_, "nvmlSystemGetDriverVersion"))
            return;
        source_ = power_source::no_driver;
        if (init() != success) return;
        started_ = true;
        source_ =
            handle(bus.c_str(), &device_) == success ? power_source::available : power_source::no_device;
    }
    power_meter(const power_meter&) = delete;
    power_meter& operator=(const power_meter&) = delete;
    ~power_meter() {
        if (started_) shutdown_();
    }

    /// Where figures come from, or why there are none.
    power_source source() const noexcept { return source_; }
    /// Whether there are figures.
    bool available() const noexcept { return source_ == power_source::available; }

    /// What the card draws now, in watts.
    std::optional<double> watts() const {
        unsigned milliwatts = 0;
        if (!available() || power_(device_, &milliwatts) != success) return std::nullopt;
        return milliwatts / 1e3;
    }
    /// Energy since the driver was loaded, in joules: take differences.
    std::optional<double> joules() const {
        unsigned long long millijoules = 0;
        if (!available() || energy_(device_, &millijoules) != success) return std::nullopt;
        return static_cast<double>(millijoules) / 1e3;
    }
    /// Clocks now, in MHz.
    std::optional<unsigned> multiprocessor_clock() const { return clock(1); }
    /// Of the card's memory.
    std::optional<unsigned> memory_clock() const { return clock(2); }
    /// The driver's version, as nvidia-smi writes it.
    std::optional<std::string> driver() const {
        char text[96] = {};
        if (!started_ || driver_(text, sizeof text) != success) return std::nullopt;
        return std::string(text);
    }

private:
    // NVML's interface, as its reference states it: nvmlReturn_t is an enumeration with 0 for success,
    // nvmlDevice_t a pointer, and clocks are numbered (1 the multiprocessors', 2 the memory's).
    using device_type = void*;
    using init_type = int();
    using shutdown_type = int();
    using handle_type = int(const char*, device_type*);
    using power_type = int(device_type, unsigned*);
    using energy_type = int(device_type, unsigned long long*);
    using clock_type = int(device_type, int, unsigned*);
    using driver_type = int(char*, unsigned);
    static constexpr int success = 0;

    struct close_library {
        void operator()(void* library) const { dlclose(library); }
    };

    template <class Function>
    bool find(Function*& function, const char* name) {
        function = reinterpret_cast<Function*>(dlsym(library_.get(), name));
        return function != nullptr;
    }

    std::optional<unsigned> clock(int which) const {
        unsigned megahertz = 0;
        if (!available() || clock_(device_, which, &megahertz) != success) return std::nullopt;
        return megahertz;
    }

    std::unique_ptr<void, close_library> library_;
    power_source source_ = power_source::no_library;
    bool started_ = false;
    device_type device_ = nullptr;
    shutdown_type* shutdown_ = nullptr;
    power_type* power_ = nullptr;
    energy_type* energy_ = nullptr;
    clock_type* clock_ = nullptr;
    driver_type* driver_ = nullptr;
};

} // namespace echo::cuda
