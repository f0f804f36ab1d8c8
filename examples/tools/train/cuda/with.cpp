// SPDX-License-Identifier: BSL-1.0
#include "engine/cuda/device_backend.hpp"
#include "train/places.hpp"
#include "train/trainer.hpp"

#include <echo/cuda/error.hpp>

namespace train {
namespace {

struct card {
    static constexpr device kind = device::cuda;
    engine::cuda::device_backend backend;

    std::pair<std::string, std::string> words() const { return {"device", backend.description()}; }
    void expect_room(const engine::planned& p) const { train::expect_room(p, backend.free_bytes()); }
    /// Memory that was free may be another process's when it is asked for.
    template <class F>
    void guard(const engine::planned& p, F&& f) const {
        try {
            f();
        } catch (const echo::cuda::out_of_memory&) {
            expect_room(p); // by now all of this process's is given back
            throw;
        }
    }
    std::optional<std::uint64_t> driver_bytes() const { return backend.driver_bytes(); }
    engine::mover* moves() { return nullptr; }
    std::string store_words() const { return {}; }
    echo::link_model link_of(const options&, prepared&) { return {}; }
};

static_assert(alignment(device::cuda) == engine::cuda::device_backend::alignment);

} // namespace

status train_on_cuda(const options& asked) {
    card on{engine::cuda::device_backend({.tf32 = asked.tf32})};
    return train_on(asked, on);
}

} // namespace train
