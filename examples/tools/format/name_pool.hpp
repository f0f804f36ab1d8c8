// SPDX-License-Identifier: BSL-1.0
/// @file
/// `name_pool`: texts that many nodes share (ops, layers), each kept once and named by an index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace echo::format {

class name_pool {
public:
    /// The index of `text`, which is added if it is new. O(length) expected.
    std::uint32_t insert(std::string_view text) {
        key_.assign(text);
        const auto [at, added] = index_.try_emplace(key_, static_cast<std::uint32_t>(texts_.size()));
        if (added) texts_.push_back(key_);
        return at->second;
    }

    std::string_view operator[](std::uint32_t index) const { return texts_[index]; }
    std::size_t size() const noexcept { return texts_.size(); }

private:
    std::vector<std::string> texts_;
    std::unordered_map<std::string, std::uint32_t> index_;
    std::string key_; ///< keeps its memory, so that a known text allocates nothing
};

} // namespace echo::format
