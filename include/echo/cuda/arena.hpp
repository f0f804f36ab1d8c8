// SPDX-License-Identifier: BSL-1.0
/// @file
/// `device_arena`: the memory of a plan, allocated once and given back at its end. Needs no CUDA header:
/// where the memory comes from is a `device_allocator`, CUDA's (allocators.hpp) or the host's.
#pragma once

#include <echo/cuda/bound_plan.hpp>
#include <echo/cuda/error.hpp>
#include <echo/cuda/stream_ref.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace echo::cuda {

/// Where an arena's memory comes from.
///
/// Minimal definition: `allocate(bytes, alignment, stream)` gives a `void*`, `deallocate(pointer, bytes,
/// stream)` takes it back; the allocator can be moved.
/// Laws: the memory can be used by work of `stream` that is queued behind the call; it is a multiple of
/// `alignment`; nobody else has it until `deallocate`, after which only work already queued in `stream` may
/// use it. Where there is not enough, `allocate` throws `out_of_memory` or `std::bad_alloc`. `deallocate`
/// does not throw.
/// Models: `cuda_malloc_allocator`, `stream_ordered_allocator` (allocators.hpp); a host wraps its own in two
/// functions.
/// Example:
/// ```cpp
/// struct host_pool {
///     void* allocate(std::size_t bytes, std::size_t, stream_ref s) { return host_alloc(bytes, s.get()); }
///     void deallocate(void* memory, std::size_t, stream_ref s) { host_free(memory, s.get()); }
/// };
/// ```
template <class A>
concept device_allocator = std::move_constructible<A> && requires(A& a, void* memory, std::size_t bytes,
                                                                  std::size_t alignment, stream_ref stream) {
    { a.allocate(bytes, alignment, stream) } -> std::same_as<void*>;
    a.deallocate(memory, bytes, stream);
};

/// Every arena begins at a multiple of this, or of the plan's own alignment if that is larger; bytes. It is
/// what CUDA's allocators give, and enough for any vector access; offsets are multiples of it if the plan is
/// made with `memory_options{.align = arena_alignment}`.
inline constexpr std::size_t arena_alignment = 256;

/// The arenas of a memory plan, each one allocation, and the address of every copy in them. All that is
/// allocated is allocated by the constructor, and nothing waits for the device but what the allocator itself
/// does.
///
/// The memory can be used by work queued in `stream` behind the constructor; another stream first waits for
/// an event of this one. The stream outlives the arena, whose end is queued in it: other streams' work is
/// waited for before. The plan may go.
template <device_allocator Allocator>
class device_arena {
public:
    /// Throws `out_of_memory`, which names the arena, what was asked, and what is free; what the allocator
    /// throws; and `argument_error` as `bound_plan`. Gives back all it got if it throws. O(blocks + copies).
    device_arena(const memory_plan& plan, Allocator allocator, stream_ref stream)
        : memory_(std::move(allocator), stream), plan_(plan, allocate(plan)) {}

    /// See bound_plan.hpp.
    bool holds(copy_id copy) const noexcept { return plan_.holds(copy); }
    /// Where the copy lies. Errors: as bound_plan.hpp says.
    void* at(copy_id copy) const { return plan_.at(copy); }
    /// Where that output of a step lies. Errors: as bound_plan.hpp says.
    void* at(step_id step, std::uint32_t output = 0) const { return plan_.at(step, output); }
    /// The copy as `count` elements. Errors: as bound_plan.hpp says.
    template <class T>
    std::span<T> elements(copy_id copy, std::uint64_t count) const {
        return plan_.template elements<T>(copy, count);
    }
    /// The plan with its addresses.
    const bound_plan& plan() const noexcept { return plan_; }

    /// Bytes allocated, all arenas together.
    std::uint64_t bytes() const noexcept { return memory_.bytes(); }
    /// The stream in whose order the memory was taken.
    stream_ref stream() const noexcept { return memory_.stream(); }

private:
    /// What was allocated; a class of its own so that it is given back also where the constructor goes on to
    /// fail.
    class owned_memory {
    public:
        owned_memory(Allocator allocator, stream_ref stream)
            : allocator_(std::move(allocator)), stream_(stream) {}
        owned_memory(owned_memory&& other) noexcept(std::is_nothrow_move_constructible_v<Allocator>)
            : allocator_(std::move(other.allocator_)), stream_(other.stream_),
              pieces_(std::move(other.pieces_)) {
            other.pieces_.clear();
        }
        owned_memory& operator=(owned_memory&&) = delete;
        ~owned_memory() {
            for (auto p = pieces_.rbegin(); p != pieces_.rend(); ++p)
                allocator_.deallocate(p->data, p->bytes, stream_);
        }

        void* add(std::size_t bytes, std::size_t alignment) {
            pieces_.reserve(pieces_.size() + 1); // so that what is allocated is kept
            void* const data = allocator_.allocate(bytes, alignment, stream_);
            if (!data) throw std::bad_alloc();
            pieces_.push_back({data, bytes});
            if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
                throw error(fault::misaligned, 0, "the allocator",
                            "gave memory that is no multiple of " + std::to_string(alignment) + " bytes",
                            "have allocate() keep to its second argument");
            return data;
        }

        std::uint64_t bytes() const noexcept {
            std::uint64_t sum = 0;
            for (const auto& p : pieces_) sum += p.bytes;
            return sum;
        }
        stream_ref stream() const noexcept { return stream_; }

    private:
        struct piece {
            void* data;
            std::size_t bytes;
        };
        Allocator allocator_;
        stream_ref stream_;
        std::vector<piece> pieces_;
    };

    /// One allocation per arena of the plan, none for an arena of 0 bytes.
    std::vector<void*> allocate(const memory_plan& plan) {
        const std::size_t count = std::max<std::size_t>(plan.arenas().size(), 1);
        const std::size_t alignment = std::max<std::size_t>(arena_alignment, plan.align());
        std::vector<void*> bases;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t bytes = plan.arenas().empty() ? plan.bytes() : plan.arenas()[i].bytes;
            const std::string name =
                count == 1 ? "the arena" : "arena " + std::to_string(i) + " of " + std::to_string(count);
            bases.push_back(bytes ? allocate(bytes, alignment, name) : nullptr);
        }
        return bases;
    }

    void* allocate(std::uint64_t bytes, std::size_t alignment, const std::string& name) {
        try {
            return memory_.add(bytes, alignment);
        } catch (const out_of_memory& e) {
            auto known = e.shortage();
            if (known.arena.empty()) known.arena = name;
            throw out_of_memory(e.code(), e.operation(), std::move(known));
        } catch (const std::bad_alloc&) {
            throw out_of_memory(0, "the allocator", {.asked = bytes, .arena = name});
        }
    }

    owned_memory memory_;
    bound_plan plan_;
};

} // namespace echo::cuda
