// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/backend.hpp"
#include "train/places.hpp"
#include "train/trainer.hpp"

namespace train {
namespace {

struct processor {
    static constexpr device kind = device::cpu;
    engine::cpu::backend backend;

    std::pair<std::string, std::string> words() const {
        return {"threads", std::to_string(backend.threads())};
    }
    void expect_room(const engine::planned& p) const { train::expect_room(p); }
    template <class F>
    void guard(const engine::planned&, F&& f) const {
        f();
    }
    std::optional<std::uint64_t> driver_bytes() const { return std::nullopt; }
};

} // namespace

status train_on_cpu(const options& asked) {
    processor on{engine::cpu::backend(asked.threads)};
    return train_on(asked, on);
}

} // namespace train
