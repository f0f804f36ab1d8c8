// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/backend.hpp"
#include "engine/cpu/file_mover.hpp"
#include "train/places.hpp"
#include "train/trainer.hpp"

#include <chrono>
#include <future>

namespace train {
namespace {

struct processor {
    static constexpr device kind = device::cpu;
    engine::cpu::backend backend;
    std::optional<engine::cpu::file_mover> file{}; ///< where values may wait

    std::pair<std::string, std::string> words() const {
        return {"threads", std::to_string(backend.threads())};
    }
    void expect_room(const engine::planned& p) const { train::expect_room(p); }
    template <class F>
    void guard(const engine::planned&, F&& f) const {
        f();
    }
    std::optional<std::uint64_t> driver_bytes() const { return std::nullopt; }

    engine::mover* moves() { return file ? &*file : nullptr; }
    std::string store_words() const {
        return fmt::format("a file in {}, {}", echo::format::one_line(file->file().folder()),
                           file->file().direct() ? "past the page cache" : "through the page cache");
    }
    /// Runs steps that move nothing, and measures the file beside them.
    echo::link_model link_of(const options& asked, prepared& p) {
        const engine::session_options plain{.execution = {.profile = true}, .seed = asked.seed};
        engine::planned plans = engine::make_plans(*p.graph, plain);
        expect_room(plans);
        engine::session<engine::cpu::backend> s(*p.graph, backend, plain, std::move(plans));
        const auto step = [&] {
            p.built.model.fill(s.outside(), 1);
            s.step();
        };
        constexpr int steps = 3; // the first touches pages
        for (int k = 0; k < steps; ++k) step();
        s.execution().store_times();
        auto link = std::async(std::launch::async, [&] { return file->measure(); });
        while (link.wait_for(std::chrono::seconds(0)) != std::future_status::ready) step();
        return link.get();
    }
};

} // namespace

status train_on_cpu(const options& asked) {
    processor on{engine::cpu::backend(asked.threads)};
    if (asked.offload) on.file.emplace(*asked.offload);
    return train_on(asked, on);
}

} // namespace train
