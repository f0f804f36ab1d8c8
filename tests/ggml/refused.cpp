// SPDX-License-Identifier: BSL-1.0
// What the adapter cannot use: the graph stays as it was, and the reason is one line.
#include <catch2/catch.hpp>
#include <engine.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace {

using echo_ggml::context_ptr;

void times_two(ggml_tensor* dst, const ggml_tensor* a, int, int, void*) {
    for (std::int64_t i = 0; i < ggml_nelements(a); ++i)
        static_cast<float*>(dst->data)[i] = 2 * static_cast<const float*>(a->data)[i];
}

/// A chain whose feature maps are worth making again.
struct chain {
    context_ptr context;
    ggml_cgraph* graph = nullptr;
    int forward = 0;
    std::vector<ggml_tensor*> nodes{};

    explicit chain(int size = 256, std::size_t memory = 4 << 20, bool custom = false, bool stray_view = false)
        : context(echo_ggml::new_context(memory)) {
        ggml_context* const c = context.get();
        ggml_tensor* x = ggml_new_tensor_2d(c, GGML_TYPE_F32, 64, 64);
        ggml_set_input(x);
        for (int i = 0; i < 4; ++i) {
            ggml_tensor* const w = ggml_new_tensor_2d(c, GGML_TYPE_F32, 64, 64);
            ggml_set_param(w);
            x = ggml_silu(c, ggml_soft_max(c, ggml_scale(c, ggml_mul_mat(c, w, x), 2)));
        }
        ggml_tensor* const loss = ggml_sum(c, x);
        ggml_set_loss(loss);
        graph = ggml_new_graph_custom(c, static_cast<std::size_t>(size), true);
        ggml_build_forward_expand(graph, loss);
        if (custom) ggml_build_forward_expand(graph, ggml_map_custom1(c, x, times_two, 1, nullptr));
        if (stray_view) ggml_build_forward_expand(graph, ggml_sqr(c, ggml_view_tensor(c, x)));
        forward = ggml_graph_n_nodes(graph);
        ggml_build_backward_expand(c, graph, nullptr);
        nodes.assign(ggml_graph_nodes(graph), ggml_graph_nodes(graph) + ggml_graph_n_nodes(graph));
    }
    const echo_ggml::decision& plan(echo_ggml::engine& e) {
        return e(context.get(), graph, forward, nullptr);
    }
    bool is_unchanged() const {
        return std::vector<ggml_tensor*>(ggml_graph_nodes(graph),
                                         ggml_graph_nodes(graph) + ggml_graph_n_nodes(graph)) == nodes;
    }
};

echo_ggml::settings cheap() { return {.max_overhead = 1}; }

echo_ggml::settings read(std::map<std::string, std::string> given) {
    return echo_ggml::read_settings(
        [&](const char* name) { return given.contains(name) ? given[name].c_str() : nullptr; });
}

} // namespace

TEST_CASE("a chain is rewritten, and the same graph again takes the same plan") {
    echo_ggml::engine e(cheap());
    chain first, second;
    REQUIRE(first.plan(e).steps);
    const auto* const made = &second.plan(e);
    CHECK(made->steps);
    CHECK(!first.is_unchanged());
    CHECK(&first.plan(e) != made); // what was rewritten is another graph
}

TEST_CASE("a graph without room for more nodes stays as it is") {
    echo_ggml::engine e(cheap());
    chain tight(chain().graph ? ggml_graph_n_nodes(chain().graph) + 6 : 0);
    const auto& made = tight.plan(e);
    CHECK(!made.steps);
    CHECK(made.problem.find("the graph holds") != std::string::npos);
    CHECK(tight.is_unchanged());
}

TEST_CASE("a plan of a roomy graph is not used in a tight one") {
    echo_ggml::engine e(cheap());
    chain wide;
    REQUIRE(wide.plan(e).steps);
    chain tight(ggml_graph_n_nodes(chain().graph) + 1);
    CHECK(!tight.plan(e).steps);
    CHECK(tight.is_unchanged());
}

TEST_CASE("a context without room for more tensors stays as it is") {
    const chain whole;
    const auto report =
        std::filesystem::temp_directory_path() / ("echo-ggml-report." + std::to_string(::getpid()));
    auto asked = cheap();
    asked.report = report.string();
    echo_ggml::engine e(asked);
    chain tight(256, ggml_used_mem(whole.context.get()) + 2 * ggml_tensor_overhead());
    CHECK(tight.plan(e).problem.find("no room") != std::string::npos);
    CHECK(tight.is_unchanged());
    std::ifstream written(report);
    std::string first;
    std::getline(written, first);
    CHECK(first.find("compute buffer 0.20 -> 0.20 MB") != std::string::npos); // nothing was changed
    std::filesystem::remove(report);
}

TEST_CASE("what is drawn of a graph is what runs") {
    const chain whole;
    const auto folder =
        std::filesystem::temp_directory_path() / ("echo-ggml-page." + std::to_string(::getpid()));
    std::filesystem::create_directory(folder);
    for (const bool tight : {false, true}) {
        auto asked = cheap();
        asked.report = (folder / "page.html").string();
        echo_ggml::engine e(asked);
        chain c(256, tight ? ggml_used_mem(whole.context.get()) + 2 * ggml_tensor_overhead() : 4 << 20);
        CHECK(c.plan(e).problem.empty() != tight);
        std::ifstream written(folder / "page.plan.json");
        const std::string plan{std::istreambuf_iterator<char>(written), {}};
        CHECK(plan.find("\"schedule\"") != std::string::npos);
        CHECK((plan.find("\"recompute\"") == std::string::npos) == tight);
    }
    std::filesystem::remove_all(folder);
}

TEST_CASE("where planning itself fails the graph stays as it is, and nobody tries again") {
    echo_ggml::engine e({.max_overhead = -1}); // which no setting can ask for
    chain c;
    const auto& made = c.plan(e);
    CHECK(made.problem.find("max_overhead") != std::string::npos);
    CHECK(c.is_unchanged());
    const auto judged = made.judged;
    CHECK(c.plan(e).judged == judged);
    CHECK(c.is_unchanged());
}

TEST_CASE("an op that nobody knows is kept and reported") {
    echo_ggml::engine e(cheap());
    chain with(256, 4 << 20, true);
    const auto& made = with.plan(e);
    CHECK(made.steps);
    CHECK(made.unknown_ops == std::vector<std::string>{"MAP_CUSTOM1"});
}

TEST_CASE("what the planner cannot read throws before anything is changed") {
    echo_ggml::engine e(cheap());
    chain with(256, 4 << 20, false, true);
    CHECK_THROWS_WITH(with.plan(e), Catch::Contains("is read but is no node of the graph"));
    CHECK(with.is_unchanged());
}

TEST_CASE("a budget below the bound stays as it is, and says what can be had") {
    echo_ggml::settings asked;
    asked.budget = 1000;
    echo_ggml::engine e(asked);
    chain c;
    const auto& made = c.plan(e);
    CHECK(!made.steps);
    CHECK(made.problem.find("no plan goes below") != std::string::npos);
    CHECK(c.is_unchanged());
}

TEST_CASE("a context that gives tensors memory at once is refused") {
    echo_ggml::engine e(cheap());
    const context_ptr eager(ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = false}));
    chain c;
    CHECK_THROWS_WITH(e(eager.get(), c.graph, c.forward, nullptr), Catch::Contains("use no_alloc"));
    CHECK(c.is_unchanged());
}

TEST_CASE("settings") {
    CHECK(read({}).max_overhead == 0.05);
    CHECK(read({{"ECHO_BUDGET", "512MiB"}}).budget == 512U << 20);
    CHECK(read({{"ECHO_BUDGET", "2.5GB"}}).budget == 2'500'000'000U);
    CHECK(read({{"ECHO_BUDGET", "60%"}}).ratio == 0.6);
    CHECK(read({{"ECHO_BUDGET", "0.6"}}).ratio == 0.6);
    CHECK(read({{"ECHO_BUDGET", "4096"}}).budget == 4096);
    CHECK(read({{"ECHO_MAX_OVERHEAD", "2%"}}).max_overhead == 0.02);
    CHECK(read({{"ECHO_REPORT", "x.json"}, {"ECHO_BUDGET", ""}}).report == "x.json");
    for (const char* const bad : {"x", "12Q", "-1", "nan", "inf", "1e300GB", "0.5x"}) {
        INFO(bad);
        CHECK_THROWS_WITH(read({{"ECHO_BUDGET", bad}}), Catch::Contains("ECHO_BUDGET: '"));
    }
    for (const char* const bad : {"x", "-1", "5MB", "inf"}) {
        INFO(bad);
        CHECK_THROWS_WITH(read({{"ECHO_MAX_OVERHEAD", bad}}), Catch::Contains("ECHO_MAX_OVERHEAD: '"));
    }
}
