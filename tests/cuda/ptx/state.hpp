// SPDX-License-Identifier: BSL-1.0
/// @file
/// The one device that runtime.cpp and driver.cpp stand in for.
#pragma once

#include "machine.hpp"

#include <list>
#include <map>
#include <set>
#include <string>

namespace ptx {

/// Cases of a kernel, as tests report them.
struct outcomes {
    std::uint64_t cases = 0, equal = 0, elements = 0, warp_instructions = 0;
};

struct device_state {
    machine on;
    std::list<module> modules;
    std::string fault;                                   ///< the last one
    std::string last_kernel;                             ///< that was launched
    std::string group;                                   ///< what launches belong to
    std::map<std::string, std::set<std::string>> groups; ///< of each kernel
    std::uint64_t before_last = 0,
                  after_last = 0; ///< warp instructions of all kernels, around the last launch
    std::map<std::string, outcomes> reported;

    static device_state& get();

    module& add_module(const std::string& name, std::string text);
    /// 0, or the code of an error of CUDA's, whose words are in `fault`.
    int launch(module& from, const std::string& kernel, extent3 grid, extent3 block, std::uint32_t shared,
               const void* const* arguments);
    std::uint64_t warp_instructions() const;
    ~device_state();
};

} // namespace ptx
