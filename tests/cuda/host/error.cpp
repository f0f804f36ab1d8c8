// SPDX-License-Identifier: BSL-1.0
// What a program learns of a failure on a device, and that nobody gets the default stream by accident. No
// CUDA header.
#include "../bench/cards/nvtx.hpp"

#include <echo/cuda/error.hpp>
#include <echo/cuda/stream_ref.hpp>

#include <catch2/catch.hpp>

#include <set>
#include <type_traits>

namespace {

using Catch::Contains;
using namespace echo::cuda;

// Streams: what converts, and what does not.
static_assert(std::is_trivially_copyable_v<stream_ref> && sizeof(stream_ref) == sizeof(void*));
static_assert(std::is_convertible_v<CUstream_st*, stream_ref>);
static_assert(!std::is_default_constructible_v<stream_ref>);
static_assert(!std::is_convertible_v<std::nullptr_t, stream_ref> &&
              !std::is_constructible_v<stream_ref, int>);
static_assert(std::is_constructible_v<stream_ref, default_stream_t>);
static_assert(stream_ref(default_stream).is_default());

void takes_a_stream(stream_ref) {}

} // namespace

TEST_CASE("a null stream is refused, the default one is asked for", "[cuda][stream]") {
    int something = 0;
    auto* const handle = reinterpret_cast<CUstream_st*>(&something);
    CUstream_st* const null = nullptr;
    CHECK(stream_ref(handle).get() == handle);
    CHECK_FALSE(stream_ref(handle).is_default());
    CHECK_THROWS_AS(takes_a_stream(null), argument_error);
    CHECK_THROWS_WITH(takes_a_stream(null), Contains("stream: is null; ") && Contains("default_stream"));
    takes_a_stream(default_stream);
    CHECK(stream_ref(default_stream).get() == nullptr);
    CHECK(stream_ref::or_default(null) == stream_ref(default_stream));
    CHECK(stream_ref::or_default(handle) == stream_ref(handle));
}

TEST_CASE("every fault has its codes and its advice", "[cuda][error]") {
    const std::pair<int, fault> known[] = {{100, fault::no_device},
                                           {34, fault::no_driver},
                                           {35, fault::driver_too_old},
                                           {2, fault::out_of_memory},
                                           {209, fault::wrong_architecture},
                                           {716, fault::misaligned},
                                           {700, fault::device_lost},
                                           {719, fault::device_lost},
                                           {1, fault::invalid},
                                           {900, fault::capture},
                                           {908, fault::capture},
                                           {910, fault::other},
                                           {304, fault::other},
                                           {999, fault::other}};
    for (const auto& [code, kind] : known) {
        CAPTURE(code);
        CHECK(fault_of(code) == kind);
        CHECK(advice_for(kind).empty() == (kind == fault::other));
        CHECK(sticky(kind) == (kind == fault::device_lost || kind == fault::misaligned));
    }
}

TEST_CASE("an error is one line with operation, problem and advice", "[cuda][error]") {
    const error e(fault::no_device, 100, "cudaMalloc", "no CUDA\ndevice");
    CHECK(e.what() == "cudaMalloc: no CUDA\\x0adevice; " + std::string(advice_for(fault::no_device)));
    CHECK(e.code() == 100);
    CHECK(e.kind() == fault::no_device);
    CHECK(e.operation() == "cudaMalloc");
    CHECK_THROWS_AS(throw e, echo::error);

    const out_of_memory all(2, "cudaMalloc",
                            {.asked = 4096, .free = 10, .total = 20, .arena = "arena 1 of 2"});
    CHECK_THAT(all.what(), Contains("cudaMalloc: 4096 bytes asked for arena 1 of 2, 10 free of 20; "));
    const out_of_memory some(0, "the allocator", {.asked = 4096});
    CHECK_THAT(some.what(), Contains("the allocator: 4096 bytes asked; "));
    CHECK(some.kind() == fault::out_of_memory);
}

TEST_CASE("a layer's range costs nothing to ask for", "[cuda][nvtx]") {
    const layer_range outer("encoder");
    const layer_range inner("attention");
    const basic_layer_range<false> none("without NVTX");
    SUCCEED();
}
