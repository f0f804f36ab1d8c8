// SPDX-License-Identifier: BSL-1.0
/// @file
/// `store_file`: a file without a name that holds what is not needed in memory for a while.
#pragma once

#include "engine/mover.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace engine::cpu {

/// A buffer that a thread copies through where the file system cannot take the memory itself.
class store_buffer {
public:
    static constexpr std::size_t size = std::size_t{1} << 20;
    store_buffer();
    store_buffer(const store_buffer&) = delete;
    store_buffer& operator=(const store_buffer&) = delete;
    ~store_buffer();
    std::byte* data() const noexcept { return at_; }

private:
    std::byte* at_;
};

/// Past the page cache (`O_DIRECT`) where the file system can do that: what has been written then takes none of the
/// machine's memory. It is gone with the process, however that ends.
class store_file {
public:
    /// In a folder; without one, in that of TMPDIR, or in /tmp. Errors: it cannot be made there.
    explicit store_file(std::string folder = {});
    store_file(const store_file&) = delete;
    store_file& operator=(const store_file&) = delete;
    ~store_file();

    const std::string& folder() const noexcept { return folder_; }
    /// Whether it goes past the page cache.
    bool direct() const noexcept { return offset_alignment_ > 1; }

    /// Carries a transfer; threads may do so at once, each with a buffer of its own. Errors: the disk is full, the
    /// device fails, the file ends early.
    void write(const transfer& what, store_buffer& through) const;
    void read(const transfer& what, store_buffer& through) const;

private:
    struct piece {
        std::uint64_t bytes, padded; ///< of the transfer, and of the file
        bool through_buffer;
    };
    piece next_piece(const transfer& what, std::uint64_t first) const;
    template <class Move>
    void carry(const transfer& what, const char* key, const Move& move) const;

    std::string folder_;
    int file_ = -1;
    std::size_t memory_alignment_ = 1, offset_alignment_ = 1;
};

} // namespace engine::cpu
