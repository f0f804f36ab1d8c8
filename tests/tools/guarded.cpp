// SPDX-License-Identifier: BSL-1.0
/// @file
/// Whatever a guarded call does, who asked gets its text or one line that says what went wrong, and goes on.
#include <catch2/catch.hpp>
#include <onnx/guarded.hpp>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>

namespace {

/// What is said of a call that may take a second of processor time and 64 MB.
template <class F>
std::string refusal(F call) {
    try {
        echo::format::guarded("shapes", call, std::size_t{64} << 20, 1);
    } catch (const echo::error& e) {
        return e.problem();
    }
    return "it came back";
}

} // namespace

TEST_CASE("a guarded call gives its text, however long", "[guarded]") {
    CHECK(echo::format::guarded("shapes", [] { return std::string("text"); }) == "text");
    CHECK(echo::format::guarded("shapes", [] { return std::string(); }).empty());
    const std::string longer(std::size_t{3} << 20, 'x');
    CHECK(echo::format::guarded("shapes", [&] { return longer; }) == longer);
}

TEST_CASE("what a guarded call does wrong takes one line", "[guarded]") {
    CHECK(refusal([]() -> std::string { throw std::runtime_error("two\nlines"); }) == "two lines");
    CHECK(refusal([]() -> std::string { std::_Exit(3); }) == "the ONNX library breaks down on this model");
    CHECK(refusal([]() -> std::string { std::abort(); }) ==
          "the ONNX library breaks down on this model (Aborted)");
    if (echo::format::addresses_are_bounded)
        CHECK(refusal([] { return std::string(std::size_t{1} << 30, 'x'); }) ==
              "takes more memory than it may");
}

TEST_CASE("a guarded call that never ends is ended, even if it has closed what it answers by", "[guarded]") {
    const std::string busy = refusal([]() -> std::string {
        for (;;) std::clock();
    });
    CAPTURE(busy); // with less than a quarter of a core it is ended by the clock
    CHECK((busy == "takes more than 1 seconds" ||
           busy == "the ONNX library does not come back within 4 seconds"));
    for (const bool close : {false, true})
        CHECK(refusal([&]() -> std::string {
                  for (int file = 3; close && file < 256; ++file) ::close(file);
                  for (;;) ::pause();
              }) == "the ONNX library does not come back within 4 seconds");
}
