// SPDX-License-Identifier: BSL-1.0
/// @file
/// Memory of large vectors begins at a huge page, that of others comes from where all does, and all of it is given
/// back.
#include <echo/graph/large_vector.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::size_t plain = 0, at_huge_pages = 0; // blocks in use

void* or_throw(void* block) {
    if (!block) throw std::bad_alloc();
    return block;
}

} // namespace

void* operator new(std::size_t bytes) {
    ++plain;
    return or_throw(std::malloc(bytes));
}
// Catch sorts with it. A sanitizer's own would not be given back where the one above is.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    void* const block = std::malloc(bytes);
    if (block) ++plain;
    return block;
}
void* operator new(std::size_t bytes, std::align_val_t align) {
    ++at_huge_pages;
    const auto unit = static_cast<std::size_t>(align);
    return or_throw(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void operator delete(void* block) noexcept {
    if (block) --plain;
    std::free(block);
}
void operator delete(void* block, std::size_t) noexcept { ::operator delete(block); }
void operator delete(void* block, std::align_val_t) noexcept {
    if (block) --at_huge_pages;
    std::free(block);
}

namespace {

/// What one vector has taken and has not given back, while it is there and behind it.
struct blocks {
    std::size_t plain_in_use, huge_in_use, plain_left, huge_left;
    bool begins_at_a_huge_page;
};

template <class T>
blocks of_vector(std::size_t count) {
    const std::size_t plain_before = plain, huge_before = at_huge_pages;
    blocks found{};
    {
        const echo::detail::large_vector<T> v(count);
        found.plain_in_use = plain - plain_before;
        found.huge_in_use = at_huge_pages - huge_before;
        found.begins_at_a_huge_page =
            reinterpret_cast<std::uintptr_t>(v.data()) % echo::detail::huge_page == 0;
    }
    found.plain_left = plain - plain_before;
    found.huge_left = at_huge_pages - huge_before;
    return found;
}

template <class T>
void check_sizes() {
    constexpr std::size_t least = 2 * echo::detail::huge_page / sizeof(T);
    for (const std::size_t count : {std::size_t{1}, std::size_t{100}, least - 1, least, least + 1}) {
        const blocks b = of_vector<T>(count);
        CAPTURE(sizeof(T), count);
        CHECK(b.plain_in_use == (count < least));
        CHECK(b.huge_in_use == (count >= least));
        CHECK((count < least || b.begins_at_a_huge_page));
        CHECK(b.plain_left == 0);
        CHECK(b.huge_left == 0);
    }
}

} // namespace

TEST_CASE("two huge pages or more begin at one, and all memory is given back") {
    check_sizes<char>();
    check_sizes<std::uint64_t>();
}

TEST_CASE("more than there can be is refused") {
    echo::detail::huge_page_allocator<std::uint64_t> all;
    CHECK_THROWS_AS(all.allocate(~std::size_t{0}), std::bad_alloc);
    CHECK_THROWS_AS(all.allocate(~std::size_t{0} / 8 + 1), std::bad_alloc);
}
