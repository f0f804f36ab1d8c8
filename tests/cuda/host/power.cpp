// SPDX-License-Identifier: BSL-1.0
// The power meter against a library that stands in for NVML, and against none.
#include "../bench/cards/power.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>

namespace {

using echo::cuda::power_meter;
using echo::cuda::power_source;

const char card[] = "0000:3b:00.0";

} // namespace

TEST_CASE("without NVML there are no figures, and a reason", "[cuda][power]") {
    const power_meter none(card, "libno-such-library.so.1");
    CHECK(none.source() == power_source::no_library);
    CHECK_FALSE(none.available());
    CHECK_FALSE(none.watts());
    CHECK_FALSE(none.joules());
    CHECK_FALSE(none.multiprocessor_clock());
    CHECK_FALSE(none.memory_clock());
    CHECK_FALSE(none.driver());

    const power_meter other(card, "libm.so.6");
    CHECK(other.source() == power_source::no_functions);
    CHECK_FALSE(other.watts());
    for (const auto s : {power_source::no_library, power_source::no_functions, power_source::no_driver,
                         power_source::no_device})
        CHECK(words(s).starts_with("not available: "));
}

TEST_CASE("NVML is started, asked about the card, and shut down", "[cuda][power]") {
    const auto say = [](const char* how) { setenv("ECHO_FAKE_NVML", how, 1); };
    say("");
    {
        const power_meter meter(card, ECHO_FAKE_NVML_LIBRARY);
        REQUIRE(meter.available());
        CHECK(meter.watts() == 312.5);
        CHECK(meter.joules() == 5e9 + 0.25); // more than 32 bits of millijoules
        CHECK(meter.multiprocessor_clock() == 1980u);
        CHECK(meter.memory_clock() == 3201u);
        CHECK(meter.driver() == "580.159.03");
        CHECK(std::string(getenv("ECHO_FAKE_NVML_STATE")) == "started");
    }
    CHECK(std::string(getenv("ECHO_FAKE_NVML_STATE")) == "shut down");

    const power_meter elsewhere("0000:ff:00.0", ECHO_FAKE_NVML_LIBRARY);
    CHECK(elsewhere.source() == power_source::no_device);
    CHECK(elsewhere.driver() == "580.159.03");
    CHECK_FALSE(elsewhere.watts());

    say("no driver");
    const power_meter stopped(card, ECHO_FAKE_NVML_LIBRARY);
    CHECK(stopped.source() == power_source::no_driver);
    CHECK_FALSE(stopped.driver());

    say("no energy");
    const power_meter old(card, ECHO_FAKE_NVML_LIBRARY);
    CHECK(old.watts() == 312.5);
    CHECK_FALSE(old.joules());
}
