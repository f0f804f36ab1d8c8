// SPDX-License-Identifier: BSL-1.0
/// @file
/// `large_vector`: a vector that lies in huge pages where it is large and the system has them for the asking. What
/// walks a graph of a million nodes reads here and there, and a small page's address is looked up anew at nearly every
/// read.
#pragma once

#include <echo/config.hpp>

#include <cstddef>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace echo::detail {

inline constexpr std::size_t huge_page = std::size_t{1} << 21;

/// Less than two huge pages come from where all memory does. Errors: `std::bad_alloc`.
template <class T>
class huge_page_allocator {
public:
    using value_type = T;

    huge_page_allocator() = default;
    template <class U>
    huge_page_allocator(const huge_page_allocator<U>&) noexcept {}

    T* allocate(std::size_t count) {
        if (!is_large(count)) return std::allocator<T>().allocate(count);
        void* const at = ::operator new(count * sizeof(T), std::align_val_t{huge_page});
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        // A wish: where it is not granted, the pages are small.
        static_cast<void>(::madvise(at, count * sizeof(T), MADV_HUGEPAGE));
#endif
        return static_cast<T*>(at);
    }
    void deallocate(T* at, std::size_t count) noexcept {
        if (is_large(count))
            ::operator delete(at, std::align_val_t{huge_page});
        else
            std::allocator<T>().deallocate(at, count);
    }

    friend bool operator==(const huge_page_allocator&, const huge_page_allocator&) noexcept { return true; }

private:
    static bool is_large(std::size_t count) noexcept {
        return count >= 2 * huge_page / sizeof(T) && count <= static_cast<std::size_t>(-1) / 2 / sizeof(T);
    }
};

template <class T>
using large_vector = std::vector<T, huge_page_allocator<T>>;

} // namespace echo::detail
