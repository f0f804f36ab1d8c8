// SPDX-License-Identifier: BSL-1.0
/// @file
/// Where tensors lie while a backend computes: the host's memory, or a device's. A backend whose ops read and write
/// another memory than the host's has `memory() -> tensor_memory&`.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace engine {

/// Memory that ops read and write, in the order in which they are issued.
class tensor_memory {
public:
    virtual ~tensor_memory() = default;

    /// Whether the host may use its pointers. If not, `read` and `write` are all there is.
    virtual bool on_host() const noexcept = 0;
    /// At a multiple of 64 or more; `what` is for people. Errors: what says that there is not so much.
    virtual std::byte* allocate(std::size_t bytes, std::string_view what) = 0;
    virtual void free(std::byte* at, std::size_t bytes) noexcept = 0;
    /// Behind what has been issued. `from` stays as it is until the next `read` or `wait`.
    virtual void write(void* to, const void* from, std::size_t bytes) = 0;
    virtual void zero(void* to, std::size_t bytes) = 0;
    /// Waits for what has been issued, and copies.
    virtual void read(void* to, const void* from, std::size_t bytes) = 0;
    virtual void wait() = 0;
};

namespace detail {

class plain_memory final : public tensor_memory {
public:
    bool on_host() const noexcept override { return true; }
    std::byte* allocate(std::size_t bytes, std::string_view) override {
        return static_cast<std::byte*>(::operator new(bytes, align));
    }
    void free(std::byte* at, std::size_t) noexcept override { ::operator delete(at, align); }
    void write(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
    void zero(void* to, std::size_t bytes) override { std::memset(to, 0, bytes); }
    void read(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
    void wait() override {}

private:
    static constexpr std::align_val_t align{4096}; ///< a page: a file system may take it past its cache
};

} // namespace detail

inline tensor_memory& host_memory() {
    static detail::plain_memory all;
    return all;
}

/// Where the ops of a backend find their tensors.
template <class Backend>
tensor_memory& memory_of(Backend& b) {
    if constexpr (requires { b.memory(); })
        return b.memory();
    else
        return host_memory();
}

/// Owns a piece of memory, which outlives it.
class memory_piece {
public:
    memory_piece() = default;
    memory_piece(tensor_memory& of, std::size_t bytes, std::string_view what)
        : of_(&of), at_(bytes ? of.allocate(bytes, what) : nullptr), size_(bytes) {}
    memory_piece(memory_piece&& other) noexcept { swap(other); }
    memory_piece& operator=(memory_piece&& other) noexcept {
        memory_piece gone;
        gone.swap(*this);
        swap(other);
        return *this;
    }
    ~memory_piece() {
        if (at_) of_->free(at_, size_);
    }

    std::byte* data() const noexcept { return at_; }
    std::size_t size() const noexcept { return size_; }

private:
    void swap(memory_piece& other) noexcept {
        std::swap(of_, other.of_);
        std::swap(at_, other.at_);
        std::swap(size_, other.size_);
    }

    tensor_memory* of_ = nullptr;
    std::byte* at_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace engine
