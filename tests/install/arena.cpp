// SPDX-License-Identifier: BSL-1.0
// A project that has memory of its own and no CUDA: a plan's arena from its own allocator.
#include <echo/cuda/arena.hpp>

#include <cstdlib>

struct own_memory {
    void* allocate(std::size_t bytes, std::size_t alignment, echo::cuda::stream_ref) {
        return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    }
    void deallocate(void* memory, std::size_t, echo::cuda::stream_ref) { std::free(memory); }
};

int main() {
    const echo::memory_plan plan({.blocks = {{{echo::step_id(0), 0}, 256, 100}},
                                  .bytes = 356,
                                  .align = 256,
                                  .offsets = {256},
                                  .first_copy = {0, 1}});
    const echo::cuda::device_arena arena(plan, own_memory{}, echo::cuda::default_stream);
    return arena.elements<float>({echo::step_id(0), 0}, 25).size() == 25 ? 0 : 1;
}
