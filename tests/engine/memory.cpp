// SPDX-License-Identifier: BSL-1.0
/// @file
/// A memory that is not the host's: whole sessions on one that lies at other addresses, that no host may touch, and
/// whose ops run later than they are issued. The bits are those of a session on the host.
#include "engine/build.hpp"
#include "engine/cpu/backend.hpp"
#include "engine/session.hpp"
#include "support/issued_op.hpp"

#include <catch2/catch.hpp>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace engine;
using support::issued_op;

namespace {

/// Does what it is told when it is waited for, as a stream of a device does. Its addresses are not mapped: whoever
/// reads through one ends the test.
class far_memory final : public tensor_memory {
public:
    far_memory() {
        void* const all =
            mmap(nullptr, 2 * room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(all != MAP_FAILED);
        base_ = static_cast<std::byte*>(all);
        REQUIRE(mprotect(base_ + room, room, PROT_READ | PROT_WRITE) == 0);
    }
    ~far_memory() override { munmap(base_, 2 * room); }
    far_memory(const far_memory&) = delete;
    far_memory& operator=(const far_memory&) = delete;

    bool on_host() const noexcept override { return false; }
    std::byte* allocate(std::size_t bytes, std::string_view what) override {
        if (used_ + bytes > room) throw std::runtime_error("no room for " + std::string(what));
        std::byte* const at = base_ + used_;
        used_ += (bytes + 255) / 256 * 256;
        std::memset(at + room, 0xff, bytes); // NaN, and no index
        live += bytes;
        return at;
    }
    void free(std::byte* at, std::size_t bytes) noexcept override {
        finish();
        std::memset(at + room, 0xff, bytes);
        live -= bytes;
    }
    void write(void* to, const void* from, std::size_t bytes) override {
        refuse(from);
        refuse_recording("write");
        add([=, this] { std::memcpy(real(to), from, bytes); });
    }
    void zero(void* to, std::size_t bytes) override {
        refuse_recording("zero");
        add([=, this] { std::memset(real(to), 0, bytes); });
    }
    void read(void* to, const void* from, std::size_t bytes) override {
        refuse(to);
        refuse_recording("read");
        finish();
        std::memcpy(to, real(from), bytes);
        log.push_back("read " + std::to_string(bytes));
    }
    void wait() override {
        refuse_recording("wait");
        finish();
    }

    /// What the device finds at an address.
    std::byte* real(const void* at) const {
        if (!holds(at)) throw std::logic_error("an address of the host's was given to the device");
        return const_cast<std::byte*>(static_cast<const std::byte*>(at)) + room;
    }
    void add(std::function<void()> work) { (recording ? *recording : queue_).push_back(std::move(work)); }

    std::vector<std::function<void()>>* recording = nullptr;
    std::vector<std::string> log{};
    std::size_t live = 0; ///< bytes

private:
    static constexpr std::size_t room = std::size_t{1} << 28;
    bool holds(const void* at) const { return at >= base_ && at < base_ + room; }
    void refuse(const void* host) const {
        if (holds(host)) throw std::logic_error("an address of the device's was given as the host's");
    }
    void refuse_recording(const char* what) const {
        if (recording) throw std::logic_error(std::string(what) + " while a step is recorded");
    }
    void finish() {
        for (const auto& work : queue_) work();
        queue_.clear();
    }

    std::byte* base_ = nullptr;
    std::size_t used_ = 0;
    std::vector<std::function<void()>> queue_;
};

/// The CPU's kernels on far memory. Seeds and iterations are read where the step's numbers lie, when an op runs.
class far_backend {
public:
    explicit far_backend(bool can_record = true) : can_record_(can_record) {}

    tensor_memory& memory() { return memory_; }
    far_memory& far() { return memory_; }
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out) { return cpu_.scratch(o, in, out); }

    void run(const op& o, const call& c) {
        if (memory_.recording && refuses_in_recording) throw std::runtime_error("refused while recording");
        memory_.add([this, kept = std::make_shared<const issued_op>(o, c)] { run_now(*kept); });
        if (!memory_.recording) ++issued;
    }
    double timed(const op& o, const call& c) {
        run(o, c);
        memory_.wait();
        return 1;
    }
    bool records() const { return can_record_; }
    void begin_recording() {
        memory_.log.emplace_back("begin");
        memory_.recording = &recordings_.emplace_back();
    }
    std::size_t end_recording() {
        memory_.log.emplace_back("end");
        memory_.recording = nullptr;
        return recordings_.size() - 1;
    }
    void replay(std::size_t which) {
        memory_.log.push_back("replay " + std::to_string(which));
        auto at = recordings_.begin();
        std::advance(at, which);
        for (const auto& work : *at) memory_.add(work);
    }

    std::size_t issued = 0;
    bool refuses_in_recording = false;

private:
    void run_now(const issued_op& all) {
        const call& c = all.with;
        std::vector<input_view> in = all.in;
        std::vector<output_view> out = all.out;
        for (auto& i : in) i.data = i.data ? memory_.real(i.data) : nullptr;
        for (auto& k : out) k.data = k.data ? memory_.real(k.data) : nullptr;
        call here{.inputs = in, .outputs = out};
        if (!c.scratch.empty()) here.scratch = {memory_.real(c.scratch.data()), c.scratch.size()};
        step_numbers numbers;
        std::memcpy(&numbers, memory_.real(c.numbers), sizeof numbers);
        if (c.seed_at) std::memcpy(&here.seed, memory_.real(c.seed_at), sizeof here.seed);
        here.iteration = numbers.iteration;
        cpu_.run(all.what, here);
    }

    far_memory memory_;
    cpu::backend cpu_{1};
    bool can_record_;
    std::list<std::vector<std::function<void()>>> recordings_;
};

std::vector<float> noise(std::size_t n, unsigned seed) {
    std::mt19937 draw(seed);
    std::vector<float> made(n);
    for (float& x : made) x = static_cast<float>(draw() % 2001) / 1000.0f - 1;
    return made;
}

/// Dropout, relu, normalisation with running statistics, Adam, clipping: random numbers, the iteration, bits instead of
/// values, states and updates in place.
struct task {
    engine::graph graph{};
    value x{}, y{};
    std::vector<trained> parameters{};

    task() {
        constexpr std::int64_t batch = 24, width = 48, classes = 7;
        x = data(graph, "x", f32({batch, width})), y = data(graph, "y", i32({batch}));
        value h = x;
        for (int l = 0; l < 3; ++l) {
            const graph::scope name(graph, "layer" + std::to_string(l));
            const value w = parameter(graph, "w", {width, width}, {initial::uniform, 0.3});
            const value b = parameter(graph, "b", {width}, {initial::normal, 0.1});
            h = dropout(graph, relu(graph, fully_connected(graph, h, w, b)), 0.25);
        }
        const value gamma = parameter(graph, "gamma", {width}, {initial::constant, 1});
        const value beta = parameter(graph, "beta", {width}, {});
        h = batch_norm(graph, h, gamma, beta);
        track_statistics(graph, h, state(graph, "mean", {width}), state(graph, "variance", {width}));
        const value w = parameter(graph, "out", {classes, width}, {initial::uniform, 0.2});
        parameters = train(graph, softmax_output(graph, fully_connected(graph, h, w), y),
                           {.how = training::adam, .clip = 1});
    }

    void fill(residents& outside, unsigned step) const {
        const auto to = outside.f32(x);
        const auto drawn = noise(to.size(), step);
        std::copy(drawn.begin(), drawn.end(), to.begin());
        for (auto& label : outside.i32(y)) label = static_cast<std::int32_t>((step += 3) % 7);
    }
};

struct outcome {
    std::vector<float> losses{};
    std::vector<std::vector<float>> values{}; ///< parameters, gradients and states at the end
    step_counts counts{};
    std::uint64_t high_water = 0;
};

template <class Backend>
outcome run(Backend& on, const session_options& options, unsigned steps = 6) {
    task t;
    session<Backend> s(t.graph, on, options);
    outcome made;
    for (unsigned i = 1; i <= steps; ++i) {
        t.fill(s.outside(), i);
        made.losses.push_back(s.step());
        if (i == 4) // what the host changes, the next step reads
            for (float& w : s.outside().f32(t.parameters[0].parameter)) w *= 0.5f;
    }
    const auto keep = [&](const value& v) {
        const auto data = s.outside().f32(v);
        made.values.emplace_back(data.begin(), data.end());
    };
    for (const trained& p : t.parameters) keep(p.parameter), keep(p.gradient);
    for (const value& v : t.graph.inputs(role::state)) keep(v);
    made.counts = s.execution().counts();
    made.high_water = s.execution().high_water();
    return made;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
void check_same(const outcome& a, const outcome& b) {
    CHECK(same_bits(a.losses, b.losses));
    REQUIRE(a.values.size() == b.values.size());
    for (std::size_t i = 0; i < a.values.size(); ++i) {
        INFO("value " << i);
        CHECK(same_bits(a.values[i], b.values[i]));
    }
    CHECK(a.counts == b.counts);
    CHECK(a.high_water == b.high_water);
}

/// Parameter and data of a graph of their own.
struct two_residents {
    engine::graph graph{};
    value w = parameter(graph, "w", {5}, {initial::uniform, 1});
    value x = data(graph, "x", f32({5}));
    value k = data(graph, "k", i32({3}));
};

void set(float* at, far_memory& far, const std::vector<float>& to) {
    std::memcpy(far.real(at), to.data(), to.size() * sizeof(float));
}

} // namespace

TEST_CASE("a session on a memory of its own trains to the same bits") {
    const session_options options[] = {{.plan = {.how = echo::strategy::baseline}},
                                       {.plan = {.how = echo::strategy::min_cut}},
                                       {.plan = {.how = echo::strategy::budget, .budget = 1}}};
    for (const auto& how : options) {
        INFO(echo::name_of(how.plan.how));
        cpu::backend near(1);
        const outcome expected = run(near, how);
        CHECK(expected.losses[0] != expected.losses[5]);
        for (const bool recording : {true, false}) {
            INFO("recording " << recording);
            far_backend on(recording);
            const outcome found = run(on, how);
            check_same(found, expected);
            CHECK(on.far().live == 0);
            CHECK(std::count(on.far().log.begin(), on.far().log.end(), "begin") == (recording ? 2 : 0));
        }
        far_backend on;
        auto checked = how;
        checked.execution.check = true;
        check_same(run(on, checked), expected);
        CHECK(std::count(on.far().log.begin(), on.far().log.end(), "begin") == 0);
        far_backend timing;
        checked.execution = {.profile = true};
        check_same(run(timing, checked), expected);
        CHECK(std::count(timing.far().log.begin(), timing.far().log.end(), "begin") == 0);
    }
    const outcome other = run(*std::make_unique<cpu::backend>(1), options[2]);
    CHECK(other.counts.recomputed > 0);
    CHECK(other.counts.encoded + other.counts.seeded > 0);
}

TEST_CASE("the first step is issued, the second is recorded, and the loss is read between its two pieces") {
    task t;
    far_backend on;
    session<far_backend> s(t.graph, on, {.plan = {.how = echo::strategy::min_cut}});
    auto& log = on.far().log;
    t.fill(s.outside(), 1);
    log.clear();
    s.step();
    CHECK(log == std::vector<std::string>{"read 4"});
    CHECK(!s.execution().recorded());
    const std::size_t issued = on.issued;
    CHECK(issued > 0);
    log.clear();
    s.step();
    CHECK(log == std::vector<std::string>{"begin", "end", "begin", "end", "replay 0", "read 4", "replay 1"});
    CHECK(s.execution().recorded());
    const step_counts counts = s.execution().counts();
    log.clear();
    s.step();
    CHECK(log == std::vector<std::string>{"replay 0", "read 4", "replay 1"});
    CHECK(on.issued == issued);
    CHECK(s.execution().counts() == counts);

    task other;
    far_backend unused;
    session<far_backend> plain(other.graph, unused, {.execution = {.record = false}});
    other.fill(plain.outside(), 1);
    for (int i = 0; i < 3; ++i) plain.step();
    CHECK(!plain.execution().recorded());
}

TEST_CASE("a recording that is refused midway is ended, and the next step runs") {
    task t, other;
    far_backend on, plain(false);
    session<far_backend> s(t.graph, on, {}), expected(other.graph, plain, {});
    t.fill(s.outside(), 1);
    other.fill(expected.outside(), 1);
    CHECK(s.step() == expected.step());
    auto& log = on.far().log;
    log.clear();
    on.refuses_in_recording = true;
    CHECK_THROWS_WITH(s.step(), "refused while recording");
    CHECK(log == std::vector<std::string>{"begin", "end"});
    CHECK(!s.execution().recorded());
    on.refuses_in_recording = false;
    s.step();
    CHECK(s.execution().recorded());
}

TEST_CASE("a loss that is not finite stops a recorded step before anything is updated") {
    task t;
    far_backend on;
    session<far_backend> s(t.graph, on, {.plan = {.how = echo::strategy::min_cut}});
    for (unsigned i = 1; i <= 3; ++i) {
        t.fill(s.outside(), i);
        s.step();
    }
    const auto parameters = [&] {
        std::vector<float> all;
        for (const trained& p : t.parameters) {
            const auto w = s.outside().f32(p.parameter);
            all.insert(all.end(), w.begin(), w.end());
        }
        return all;
    };
    const auto before = parameters();
    s.outside().f32(t.x)[0] = std::numeric_limits<float>::infinity();
    on.far().log.clear();
    try {
        s.step();
        FAIL("accepted");
    } catch (const echo::error& e) {
        CHECK(e.node() == "x");
        CHECK(std::string(e.what()).find("step 4") != std::string::npos);
    }
    CHECK(on.far().log[0] == "replay 0");
    CHECK(std::count(on.far().log.begin(), on.far().log.end(), "replay 1") == 0);
    CHECK(same_bits(parameters(), before));
}

TEST_CASE("the host sees what lies far away through a mirror") {
    two_residents g;
    far_memory far;
    residents near_by(3), outside(3, far);
    // Parameters begin the same, data as zeros.
    auto* const w = reinterpret_cast<float*>(outside(g.w));
    auto* const x = reinterpret_cast<float*>(outside(g.x));
    const auto expected = near_by.f32(g.w);
    CHECK(same_bits({expected.begin(), expected.end()}, {outside.f32(g.w).begin(), outside.f32(g.w).end()}));
    for (const float each : outside.f32(g.x)) CHECK(each == 0);
    for (const std::int32_t each : outside.i32(g.k)) CHECK(each == 0);
    CHECK(outside.bytes() == near_by.bytes() + 5 * 4 + 3 * 4);
    CHECK(far.live == outside.bytes());

    // What the host fills goes there before the step, and not earlier.
    outside.f32(g.x)[2] = 7;
    far.wait();
    CHECK(reinterpret_cast<float*>(far.real(x))[2] == 0);
    outside.before_step();
    far.wait();
    CHECK(reinterpret_cast<float*>(far.real(x))[2] == 7);

    // What no step writes is neither read nor written again.
    set(x, far, {1, 1, 1, 1, 1});
    outside.before_step();
    far.wait();
    CHECK(reinterpret_cast<float*>(far.real(x))[2] == 1);
    far.log.clear();
    CHECK(outside.f32(g.x)[2] == 7);
    CHECK(far.log.empty());

    // What steps write is read anew, once a step.
    outside.note_written(w);
    outside.note_written(&far); // nobody's
    outside.before_step();
    set(w, far, {1, 2, 3, 4, 5});
    CHECK(outside.f32(g.w)[4] == 5);
    outside.f32(g.w)[0] = 9;
    CHECK(outside.f32(g.w)[0] == 9);
    CHECK(std::count(far.log.begin(), far.log.end(), "read 20") == 1);
    outside.before_step();
    far.wait();
    CHECK(reinterpret_cast<float*>(far.real(w))[0] == 9);
    CHECK(reinterpret_cast<float*>(far.real(w))[1] == 2);
    set(w, far, {6, 6, 6, 6, 6});
    CHECK(outside.f32(g.w)[0] == 6);
}

TEST_CASE("results are read from where they lie") {
    task t;
    cpu::backend near(1);
    far_backend on;
    task other;
    t.graph.results().push_back(t.graph.results()[0]);
    session<cpu::backend> expected(t.graph, near);
    session<far_backend> found(other.graph, on);
    t.fill(expected.outside(), 1), other.fill(found.outside(), 1);
    expected.step(), found.step();
    CHECK(same_bits(expected.execution().read(t.parameters[0].gradient),
                    found.execution().read(other.parameters[0].gradient)));
    CHECK(expected.execution().read(t.x) == noise(24 * 48, 1));
}
