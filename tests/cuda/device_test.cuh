// SPDX-License-Identifier: BSL-1.0
/// @file
/// What tests on a device share: checks that are counted, and memory with an image of it on the host, so that
/// one call is made on both and every byte is compared, those around the arrays too. No test framework: the
/// machine may have none.
#pragma once

#include "dice.hpp"

#include <echo/cuda/check.hpp>
#include <echo/cuda/device.hpp>
#include <echo/cuda/stream.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace device_test {

inline long checks = 0;
inline int failures = 0;

inline void expect(bool holds, const std::string& what) {
    ++checks;
    if (holds) return;
    if (++failures <= 20) std::printf("  FAILED: %s\n", what.c_str());
}

/// The call throws an `Error` whose line has these words.
template <class Error, class Call>
void expect_error(std::string_view words, Call&& call) {
    try {
        call();
        expect(false, "no error: " + std::string(words));
    } catch (const Error& e) {
        expect(std::string_view(e.what()).find(words) != std::string_view::npos,
               "an error without '" + std::string(words) + "': " + e.what());
    }
}

struct free_device_memory {
    void operator()(std::byte* memory) const { static_cast<void>(cudaFree(memory)); }
};
struct free_host_memory {
    void operator()(std::byte* memory) const { std::free(memory); }
};

/// The same bytes on host and device, both beginning at a multiple of 256. Filled with random bytes.
class image {
public:
    explicit image(std::size_t bytes, std::uint64_t seed = 1) : bytes_((bytes + 255) / 256 * 256) {
        host_.reset(static_cast<std::byte*>(std::aligned_alloc(256, bytes_)));
        std::byte* memory = nullptr;
        echo::cuda::check(cudaMalloc(&memory, bytes_), "cudaMalloc");
        device_.reset(memory);
        dice roll(seed);
        for (std::size_t i = 0; i < bytes_; i += 8) {
            const auto next = roll();
            std::memcpy(host_.get() + i, &next, 8);
        }
        upload();
    }

    std::byte* host() const { return host_.get(); }
    std::byte* device() const { return device_.get(); }
    std::size_t bytes() const { return bytes_; }

    void upload() const {
        echo::cuda::check(cudaMemcpy(device_.get(), host_.get(), bytes_, cudaMemcpyHostToDevice),
                          "cudaMemcpy");
        echo::cuda::wait_for_default_stream(); // a copy from pageable memory may still be under way
    }
    /// What the device has now.
    std::vector<std::byte> download() const {
        std::vector<std::byte> found(bytes_);
        echo::cuda::check(cudaMemcpy(found.data(), device_.get(), bytes_, cudaMemcpyDeviceToHost),
                          "cudaMemcpy");
        return found;
    }
    /// Every byte of the device is the host's.
    void expect_same(const std::string& what) const {
        const auto found = download();
        std::size_t at = 0;
        while (at < bytes_ && found[at] == host_.get()[at]) ++at;
        expect(at == bytes_, what + ": byte " + std::to_string(at) + " of " + std::to_string(bytes_));
    }

private:
    std::size_t bytes_;
    std::unique_ptr<std::byte, free_host_memory> host_;
    std::unique_ptr<std::byte, free_device_memory> device_;
};

/// Runs the tests, with sizes for compute-sanitizer if `--small` is said. 0: all passed; 1; 77: there is no
/// device.
template <class Tests>
int run(int argc, char** argv, const char* name, Tests&& tests) {
    const bool small = argc > 1 && std::string_view(argv[1]) == "--small";
    try {
        echo::cuda::device_count();
    } catch (const echo::cuda::error& e) {
        std::printf("%s: not run: %s\n", name, e.what());
        return 77;
    }
    try {
        const auto card = echo::cuda::properties_of(echo::cuda::current_device());
        std::printf("%s on %s (sm_%d)\n", name, card.name.c_str(), card.architecture());
        tests(small);
        echo::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    } catch (const std::exception& e) {
        expect(false, std::string("stopped: ") + e.what());
    }
    std::printf("%s: %ld checks, %d failed\n", name, checks, failures);
    return failures ? 1 : 0;
}

} // namespace device_test
