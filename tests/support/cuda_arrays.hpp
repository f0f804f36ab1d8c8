// SPDX-License-Identifier: BSL-1.0
/// @file
/// Arrays for tests of kernel bodies: at any misalignment, in a heap block that ends with them so that a
/// sanitizer sees the first byte too many, or with guard bytes behind them; and arrays of up to 2^40
/// elements.
#pragma once

#include <echo/cuda/kernel/element.hpp>

#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace support {

/// n elements that begin `skip` elements behind a 16-byte boundary. Bytes before and behind them are guards.
template <class T>
class guarded {
public:
    guarded(std::int64_t n, std::size_t skip, std::size_t guards_behind = 0)
        : size_(static_cast<std::size_t>(n)), before_(32 + skip * sizeof(T)),
          bytes_(before_ + size_ * sizeof(T) + guards_behind),
          memory_(static_cast<std::byte*>(::operator new(bytes_, std::align_val_t{16}))) {
        std::memset(memory_.get(), guard, bytes_);
    }

    T* data() { return reinterpret_cast<T*>(memory_.get() + before_); }
    const T* data() const { return reinterpret_cast<const T*>(memory_.get() + before_); }
    std::size_t size() const { return size_; }

    bool guards_intact() const {
        for (std::size_t i = 0; i < bytes_; ++i)
            if ((i < before_ || i >= before_ + size_ * sizeof(T)) && memory_.get()[i] != std::byte{guard})
                return false;
        return true;
    }
    guarded& operator=(const std::vector<T>& from) {
        if (size_ != 0) std::memcpy(data(), from.data(), size_ * sizeof(T));
        return *this;
    }
    /// Bit for bit, NaN too.
    bool operator==(const std::vector<T>& that) const {
        return that.size() == size_ &&
               (size_ == 0 || std::memcmp(data(), that.data(), size_ * sizeof(T)) == 0);
    }

private:
    static constexpr unsigned char guard = 0xa5;
    struct free_memory {
        void operator()(std::byte* at) const { ::operator delete(at, std::align_val_t{16}); }
    };
    std::size_t size_, before_, bytes_;
    std::unique_ptr<std::byte, free_memory> memory_;
};

/// Address space that takes memory only where it is touched; null where the system gives none.
template <class T>
class sparse {
public:
    explicit sparse(std::int64_t n) : bytes_(static_cast<std::size_t>(n) * sizeof(T)) {
        void* at =
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at != MAP_FAILED) data_ = static_cast<T*>(at);
    }
    sparse(const sparse&) = delete;
    sparse& operator=(const sparse&) = delete;
    ~sparse() {
        if (data_) munmap(data_, bytes_);
    }
    T* data() const { return data_; }

private:
    std::size_t bytes_;
    T* data_ = nullptr;
};

/// Random bit patterns: numbers of every kind and size, both zeros, infinities and NaN.
template <echo::cuda::element T>
std::vector<T> any_numbers(std::int64_t n, std::uint64_t seed) {
    static constexpr std::uint32_t singular[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                                 0xffc00001, 0x00000001, 0x80000001, 0x7f7fffff, 0xff7fffff};
    std::vector<T> out(static_cast<std::size_t>(n));
    std::uint64_t state = seed * 2 + 1;
    for (T& x : out) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        auto bits = static_cast<std::uint32_t>(state >> 16);
        if (state % 8 == 0) bits = singular[state / 8 % 10];
        if constexpr (sizeof(T) == 4)
            x = std::bit_cast<T>(bits);
        else
            x = T::from_bits(static_cast<std::uint16_t>(bits >> 16));
    }
    return out;
}

} // namespace support
