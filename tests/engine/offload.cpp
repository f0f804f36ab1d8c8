// SPDX-License-Identifier: BSL-1.0
/// @file
/// Values that wait in a file: the bits of training are those without, whatever leaves and when. A disk that is full
/// and a read that fails end the step with one sentence.
#include "engine/cpu/backend.hpp"
#include "engine/cpu/file_mover.hpp"
#include "engine/session.hpp"
#include "support/moved_tasks.hpp"
#include "support/sanitized.hpp"

#include <echo/graph/read.hpp>

#include <catch2/catch.hpp>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

using namespace engine;
using support::drawn_task;
using support::outcome;
using support::random_moves;
using support::same_bits;

namespace {

constexpr std::size_t graphs = support::sanitized ? 30 : 300;

cpu::backend backend_of(unsigned seed) { return cpu::backend(seed % 2 ? 2 : 1, 32); }

/// A drawn graph that is ready to be planned.
drawn_task complete_task(unsigned seed) {
    drawn_task t = support::draw_task(seed);
    cpu::backend on = backend_of(seed);
    complete(*t.graph, on);
    return t;
}

outcome train_steps(drawn_task& t, unsigned seed, planned made, executor_options how) {
    cpu::backend on = backend_of(seed);
    return support::train_steps(t, on, seed, std::move(made), how);
}

} // namespace

TEST_CASE("random moves of random graphs give the same bits") {
    cpu::file_mover moves;
    WARN("a file in " << moves.file().folder() << (moves.file().direct() ? ", past" : ", through")
                      << " the page cache");
    std::size_t offloads = 0, reloads = 0, encodings = 0, again = 0;
    for (unsigned seed = 0; seed < graphs; ++seed) {
        INFO("seed " << seed);
        drawn_task plain = complete_task(seed), moved = complete_task(seed);
        const outcome expected = train_steps(
            plain, seed, make_plans(*plain.graph, {.plan = {.how = echo::strategy::baseline}}), {});
        const auto how = seed % 3 ? echo::strategy::echo : echo::strategy::baseline;
        planned made = make_plans(*moved.graph, {.plan = {.how = how}});
        random_moves draw(made.graph, made.plan.steps(), seed);
        made.plan = echo::plan(how, draw(), {.offload = true}, {});
        made.memory = echo::plan_memory(made.graph, made.plan, {.align = seed % 2 ? 4u : 512u, .limit = 0});
        const outcome o =
            train_steps(moved, seed, std::move(made), {.check = seed % 4 == 0, .moves = &moves});
        CHECK(same_bits(o, expected));
        offloads += o.counts.offloaded, reloads += o.counts.reloaded;
        encodings += draw.encodings, again += draw.moved_again;
    }
    WARN("offloads " << offloads << ", reloads " << reloads << ", of encodings " << encodings << ", again "
                     << again);
    CHECK(offloads > graphs);
    CHECK(reloads > graphs);
    CHECK(encodings > graphs / 30);
    CHECK(again > graphs / 30);
}

TEST_CASE("plans that offload give the same bits in less memory") {
    cpu::file_mover moves;
    std::size_t offloads = 0, smaller = 0, views = 0;
    for (unsigned seed = 0; seed < graphs / 3; ++seed) {
        INFO("seed " << seed);
        drawn_task plain = complete_task(seed), moved = complete_task(seed);
        const outcome expected = train_steps(
            plain, seed, make_plans(*plain.graph, {.plan = {.how = echo::strategy::baseline}}), {});
        const echo::plan_options recompute{.how = echo::strategy::budget, .max_overhead = 0.05};
        echo::plan_options both = recompute;
        both.host.offload = true;
        both.link = {.out_bytes_per_us = 5000, .in_bytes_per_us = 5000, .both_ways = seed % 2 == 0};
        const echo::plan alone = echo::make_plan(echo::read(*moved.graph), recompute);
        planned made = make_plans(*moved.graph, {.plan = both});
        CHECK(made.plan.report().peak_bytes <= alone.report().peak_bytes);
        smaller += made.plan.report().peak_bytes < alone.report().peak_bytes;
        for (const auto t : made.plan.steps().steps()) {
            const auto& step = made.plan.steps()[t];
            views +=
                step.kind == echo::step_kind::recompute && made.graph[step.node].kind == echo::op_kind::view;
        }
        const outcome o =
            train_steps(moved, seed, std::move(made), {.check = seed % 4 == 0, .moves = &moves});
        CHECK(same_bits(o, expected));
        offloads += o.counts.offloaded;
    }
    WARN("offloads " << offloads << ", smaller " << smaller << ", views again " << views);
    CHECK(offloads > graphs / 6);
    CHECK(smaller > graphs / 30);
}

namespace {

/// A plan that offloads, made for one graph.
planned offloading_plan(const engine::graph& g) {
    echo::plan_options how{.how = echo::strategy::budget, .max_overhead = 0.05};
    how.host = {.recompute = false, .offload = true};
    how.link = {.out_bytes_per_us = 1e6, .in_bytes_per_us = 1e6};
    return make_plans(g, {.plan = how});
}

drawn_task deep_task() {
    drawn_task t;
    graph& g = *t.graph;
    t.x = data(g, "x", f32({64, 64}));
    value h = t.x;
    for (int l = 0; l < 6; ++l) {
        const value w = parameter(g, "w" + std::to_string(l), {64, 64}, {initial::uniform, 0.3});
        h = tanh(g, fully_connected(g, h, w,
                                    parameter(g, "b" + std::to_string(l), {64}, {initial::uniform, 0.1})));
    }
    t.parameters = train(g, mean(g, reshape(g, square(g, h), {64 * 64}), {0}), {.clip = 1});
    cpu::backend on = backend_of(1);
    complete(g, on);
    return t;
}

std::string failure_of(mover& moves) {
    drawn_task t = deep_task();
    try {
        train_steps(t, 1, offloading_plan(*t.graph), {.moves = &moves});
    } catch (const echo::error& e) {
        return e.what();
    }
    return "trained";
}

/// A folder of its own, gone at the end.
struct own_folder {
    std::string name = std::filesystem::temp_directory_path().string() + "/echo-test-XXXXXX";
    own_folder() { REQUIRE(mkdtemp(name.data())); }
    ~own_folder() { std::filesystem::remove_all(name); }
};

/// The file's mover, whose file is made shorter before the copy that comes back first.
class cut_short final : public mover {
public:
    explicit cut_short(mover& of) : of_(of) {}
    void prepare(transfers all) override { of_.prepare(std::move(all)); }
    void begin_step() override { of_.begin_step(); }
    void begin_out(std::size_t k) override { of_.begin_out(k); }
    void wait_out(std::size_t k) override { of_.wait_out(k); }
    void begin_in(std::size_t k) override {
        for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
            std::error_code gone;
            if (std::filesystem::read_symlink(each.path(), gone).string().find("echo-offload-") !=
                std::string::npos)
                REQUIRE(truncate(each.path().c_str(), 0) == 0);
        }
        of_.begin_in(k);
    }
    void wait_in(std::size_t k) override { of_.wait_in(k); }
    void give_up() noexcept override { of_.give_up(); }

private:
    mover& of_;
};

} // namespace

TEST_CASE("a file beyond the limit ends the step, and the next session trains") {
    cpu::file_mover moves;
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string said = failure_of(moves);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    INFO(said);
    CHECK(said.find(", offload: 16384 bytes do not travel by a file in ") != std::string::npos);
    CHECK(said.find("File too large; make room there or name another folder") != std::string::npos);
    CHECK(failure_of(moves) == "trained");
}

TEST_CASE("a full disk ends the step") {
    const own_folder folder;
    if (mount("none", folder.name.c_str(), "tmpfs", 0, "size=8192") != 0) {
        WARN("left out: no right to mount a small file system");
        return;
    }
    std::string said;
    {
        cpu::file_mover moves(folder.name);
        said = failure_of(moves);
    }
    umount(folder.name.c_str());
    INFO(said);
    CHECK(said.find("No space left on device; make room there or name another folder") != std::string::npos);
}

TEST_CASE("a read that fails ends the step") {
    cpu::file_mover file;
    cut_short moves(file);
    const std::string said = failure_of(moves);
    INFO(said);
    CHECK(said.find(", reload: 16384 bytes do not travel by a file in ") != std::string::npos);
    CHECK(said.find("it ends early") != std::string::npos);
    CHECK(failure_of(file) == "trained");
}

TEST_CASE("a folder that is not there, and a plan without a mover, are refused") {
    CHECK_THROWS_WITH(
        cpu::file_mover("/nowhere/at/all"),
        Catch::Contains("offload: no file can be made in /nowhere/at/all: No such file or directory; "
                        "name a folder that can be written to"));
    drawn_task t = deep_task();
    CHECK_THROWS_WITH(train_steps(t, 1, offloading_plan(*t.graph), {}),
                      Catch::Contains("offload: the plan offloads values, but the executor has no mover"));
}

TEST_CASE("a loss that is not finite is found while values wait in a file") {
    cpu::file_mover moves;
    drawn_task t = deep_task();
    cpu::backend on = backend_of(1);
    session<cpu::backend> s(*t.graph, on, {.execution = {.moves = &moves}}, offloading_plan(*t.graph));
    const auto fill = [&](float with) { std::ranges::fill(s.outside().f32(t.x), with); };
    fill(std::numeric_limits<float>::quiet_NaN());
    CHECK_THROWS_WITH(s.step(),
                      Catch::Contains("node 'x', loss: not finite in step 1; this node is the first"));
    fill(0.5f);
    CHECK(std::isfinite(s.step()));
}

TEST_CASE("a file through the page cache carries the same bits") {
    const std::string folder = "/dev/shm";
    if (!std::filesystem::is_directory(folder)) {
        WARN("left out: there is no /dev/shm");
        return;
    }
    cpu::file_mover moves(folder);
    CHECK(!moves.file().direct());
    drawn_task plain = deep_task(), moved = deep_task();
    const outcome expected =
        train_steps(plain, 1, make_plans(*plain.graph, {.plan = {.how = echo::strategy::baseline}}), {});
    const outcome o = train_steps(moved, 1, offloading_plan(*moved.graph), {.check = true, .moves = &moves});
    CHECK(o.counts.offloaded > 0);
    CHECK(same_bits(o, expected));
}

TEST_CASE("a link is measured") {
    cpu::file_mover moves;
    const echo::link_model link = moves.measure(std::uint64_t{1} << 25);
    WARN(link.out_bytes_per_us << " and " << link.in_bytes_per_us << " bytes/us, "
                               << (link.both_ways ? "both ways at once" : "one way at a time"));
    CHECK(link.out_bytes_per_us > 0);
    CHECK(link.in_bytes_per_us > 0);
    CHECK(failure_of(moves) == "trained");
}
