// SPDX-License-Identifier: BSL-1.0
/// @file
/// `snapshot_key`: for engines that build their graph anew for each step. The same graph has the same key, so that a
/// plan that was made once is found again: `std::unordered_map<std::string, echo::plan> plans;`.
#pragma once

#include <echo/graph/snapshot.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace echo {

namespace detail {

/// Numbers one behind the other.
class key_writer {
public:
    template <class T>
        requires std::is_arithmetic_v<T> || std::is_enum_v<T>
    key_writer& operator<<(T number) {
        char bytes[sizeof(T)];
        std::memcpy(bytes, &number, sizeof(T));
        key_.append(bytes, sizeof(T));
        return *this;
    }
    key_writer& operator<<(std::string_view text) {
        *this << text.size();
        key_ += text;
        return *this;
    }
    std::string take() && { return std::move(key_); }

private:
    std::string key_;
};

} // namespace detail

namespace detail {

inline std::string key_of(const snapshot& s, bool times) {
    key_writer key;
    key << s.node_count() << s.host_node_count() << s.op_count();
    for (std::uint32_t op = 0; op < s.op_count(); ++op) key << s.op_name(op);
    for (const auto n : s.nodes()) {
        const node_record& of = s[n];
        const unsigned flags = static_cast<unsigned>(of.keep) | static_cast<unsigned>(of.may_fuse) << 1 |
                               static_cast<unsigned>(of.draws_by_element) << 2 |
                               static_cast<unsigned>(of.unknown_op) << 3;
        key << of.phase << of.kind << of.rerun << flags << of.op << of.flops << (times ? of.time_us : -1.0)
            << of.workspace;
        key << s.inputs(n).size() << s.control(n).size() << s.outputs(n).size();
        for (std::size_t i = 0; i < s.inputs(n).size(); ++i) key << s.inputs(n)[i].index() << s.one_bit(n, i);
        for (const auto c : s.control(n)) key << c.index();
        for (const auto v : s.outputs(n))
            key << s[v].bytes << s[v].elements << s[v].view_of << s[v].inplace << s[v].type << s[v].resident;
    }
    for (const auto v : s.results()) key << v.index();
    return std::move(key).take();
}

} // namespace detail

/// All that a plan and its report hang on, as bytes: equal for graphs that differ in the names of nodes and layers
/// alone, and for no others. O(nodes + edges). Errors: none.
[[nodiscard]] inline std::string snapshot_key(const snapshot& s) { return detail::key_of(s, true); }

/// The same but for measured times, for hosts that measure anew in each step: a plan that is found by it is legal for
/// the graph and has the same peak, but was made for the times of its own graph. O(nodes + edges). Errors: none.
[[nodiscard]] inline std::string snapshot_key_without_times(const snapshot& s) {
    return detail::key_of(s, false);
}

} // namespace echo
