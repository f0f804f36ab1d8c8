// SPDX-License-Identifier: BSL-1.0
/// @file
/// `step_refusal`: how `verify` says which step of a plan is wrong, and what is wrong with it.
#pragma once

#include <echo/analysis/verify/resolved_steps.hpp>
#include <echo/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace echo::detail {

/// Throws the errors of single steps. They name the node, the step by its place in the file and, where there is one,
/// the key within the step. Snapshot and schedule must outlive it.
class step_refusal {
public:
    step_refusal(const snapshot& s, const schedule& given) : s_(s), given_(given) {}

    /// What to do about a plan that does not belong to the graph or the host.
    static std::string_view advice() noexcept { return "make the plan again, for this very graph and host"; }

    /// Of step `t`; an empty key stands for the step as a whole.
    [[noreturn]] void operator()(step_id t, const std::string& key, const std::string& problem) const {
        throw error(s_.name(given_[t].node), step_key(t.index()) + (key.empty() ? "" : "." + key), problem,
                    advice());
    }
    /// Of one of the copies that step `t` takes.
    [[noreturn]] void of_input(step_id t, std::size_t position, const std::string& problem) const {
        (*this)(t, key_of(given_[t].kind, position), problem);
    }

    /// The key of the file that names the copy which a step of this kind takes at a position.
    static std::string key_of(step_kind kind, std::size_t position) {
        switch (kind) {
        case step_kind::encode:
            return "encode";
        case step_kind::offload:
            return "offload";
        case step_kind::reload:
            return "reload";
        default:
            return "inputs[" + std::to_string(position) + "]";
        }
    }

private:
    const snapshot& s_;
    const schedule& given_;
};

} // namespace echo::detail
