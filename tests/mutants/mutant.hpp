// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo::mutant`: which of the changes planted in the headers is awake. `tests/mutants/score` includes it into every
/// unit that it compiles; nothing else does.
///
///   ECHO_MUTANT=17         change 17 is awake, and no other
///   ECHO_REACHED=FILE      none is; the numbers of those that the program came by are written into the file at its end
#pragma once

#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace echo {

namespace detail {

class mutants {
public:
    mutants() {
        if (const char* number = std::getenv("ECHO_MUTANT"))
            first_ = static_cast<unsigned>(std::strtoul(number, nullptr, 10));
        file_ = std::getenv("ECHO_REACHED");
        if (file_) more_ = most - 1;
        if (file_) first_ = 0;
    }
    mutants(const mutants&) = delete;
    mutants& operator=(const mutants&) = delete;
    ~mutants() {
        std::FILE* out = file_ ? std::fopen(file_, "w") : nullptr;
        if (!out) return;
        for (unsigned i = 0; i < most; ++i)
            if (reached_[i]) std::fprintf(out, "%u\n", i);
        std::fclose(out);
    }
    /// Numbers begin with 1. One comparison where neither the change is awake nor anything is recorded.
    bool awake(unsigned number) {
        if (number - first_ > more_) [[likely]]
            return false;
        return awake_or_recorded(number);
    }

private:
    static constexpr unsigned most = 1 << 14;

    bool awake_or_recorded(unsigned number) {
        if (!file_) return number != 0;
        reached_[number] = 1;
        return false;
    }

    unsigned first_ = 0; // and before the constructor has run
    unsigned more_ = 0;
    const char* file_ = nullptr;
    unsigned char reached_[most] = {};
};

inline mutants planted;

} // namespace detail

/// Whether the change is awake. In constant expressions none is.
constexpr bool mutant(unsigned number) {
    if (std::is_constant_evaluated()) return false;
    return detail::planted.awake(number);
}

} // namespace echo
