// SPDX-License-Identifier: BSL-1.0
// What one unit sees of the things that all units of a program share.
#pragma once

#include <every_header.hpp>

#include <string>
#include <string_view>
#include <typeinfo>

struct unit {
    const void* version;
    const std::type_info* error;
    std::string (*printable)(std::string_view);

    friend bool operator==(const unit&, const unit&) = default;
};

unit there();
[[noreturn]] void fail_there();
