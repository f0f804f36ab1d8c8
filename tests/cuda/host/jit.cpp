// SPDX-License-Identifier: BSL-1.0
// Kernels made at run time: names and graphs, code for each architecture by NVRTC (which needs no GPU), what is kept on
// disk and believed of it, and what is said where something is missing. What the source computes: source.cpp.
#include <echo/cuda/jit.hpp>
#include <echo/ops/dropout.hpp>
#include <echo/ops/matmul.hpp>

#include <catch2/catch.hpp>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <ratio>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

namespace fused = echo::cuda::fused;
namespace jit = echo::cuda::jit;
using fused::storage;

/// The gradient of tanh(q + k), with the sum and the tanh made again.
jit::graph attention(storage kind = storage::f32) {
    jit::graph g;
    const auto q = g.operand(kind), k = g.operand(kind), dy = g.operand(kind);
    g.result(g.gradient_of("tanh_op", {g.apply("add_op", {q, k})}, 0, {dy}), kind);
    return g;
}

/// An empty folder, gone at the end.
class folder {
public:
    folder() {
        char name[] = "/tmp/echo_jit_XXXXXX";
        REQUIRE(mkdtemp(name));
        path_ = name;
    }
    ~folder() { std::filesystem::remove_all(path_); }
    const std::filesystem::path& path() const { return path_; }
    std::vector<std::filesystem::path> files() const {
        std::vector<std::filesystem::path> all;
        for (const auto& f : std::filesystem::directory_iterator(path_)) all.push_back(f.path());
        return all;
    }

private:
    std::filesystem::path path_;
};

std::string contents(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
void write(const std::filesystem::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

bool have_nvrtc() {
    static const bool have = [] {
        try {
            jit::nvrtc found;
            return true;
        } catch (const jit::compiler_missing&) {
            return false;
        }
    }();
    if (!have) WARN("not run: libnvrtc is not found");
    return have;
}

template <class Error, class Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (const Error& e) {
        return e.what();
    }
    return "none";
}

} // namespace

TEST_CASE("an unknown op is named, with names like it", "[jit]") {
    jit::graph g;
    const auto x = g.operand(storage::f32);
    const auto message = [&](const char* name) {
        return error_of<jit::unknown_op>([&] { g.apply(name, {x}); });
    };
    CHECK(message("tanh_po") == "op 'tanh_po': is not registered; did you mean tanh_op?");
    CHECK(message("relu") ==
          "op 'relu': is not registered; did you mean leaky_relu_op, relu6_op or relu_gradient_op?");
    CHECK(message("convolution_op") == "op 'convolution_op': is not registered; add it: registry.add<Op>()");
    CHECK(message("") == "op '': is not registered; add it: registry.add<Op>()");
    // Whatever stands in a name stays in the message, on one line.
    CHECK(message("x\"); system(\"rm\n") ==
          "op 'x\"); system(\"rm\\x0a': is not registered; add it: registry.add<Op>()");
    CHECK(message(std::string(100000, 'a').c_str()).ends_with("add it: registry.add<Op>()"));
    try {
        g.apply("sigmiod_op", {x});
        FAIL();
    } catch (const jit::unknown_op& e) {
        CHECK(e.name() == "sigmiod_op");
        CHECK(e.near() == std::vector<std::string>{"sigmoid_op"});
    }
}

TEST_CASE("a host adds its own ops; one with parameters under a name that says them", "[jit]") {
    jit::op_registry ops = jit::op_registry::standard();
    ops.add<echo::dropout_op<std::ratio<1, 5>>>("dropout_0.2");
    CHECK(!jit::op_registry::standard().contains("dropout_0.2"));
    CHECK(error_of<echo::cuda::argument_error>([&] { ops.add<echo::tanh_op>(); }) ==
          "op 'tanh_op': is registered already; give it a name of its own");
    jit::graph g(ops);
    const auto x = g.operand(storage::f32), draw = g.operand(storage::f32), dy = g.operand(storage::f32);
    g.result(g.apply("dropout_0.2", {x, draw}, 0), storage::f32);
    g.result(g.gradient_of("dropout_0.2", {x, draw}, 0, {dy}), storage::f32);
    const std::string source = fused::source_of(g.program());
    CHECK(source.find("0x1.4p+0f") != source.npos); // 1 / (1 − 0.2)
    CHECK(source.find("dropout") == source.npos);
}

TEST_CASE("a graph refuses what it cannot hold, and stays what it was", "[jit]") {
    jit::op_registry ops = jit::op_registry::standard();
    ops.add<echo::fully_connected_op>();
    jit::graph g(ops);
    const auto x = g.operand(storage::f32), y = g.operand(storage::f32);
    const auto refused = [&](auto call) { return error_of<echo::cuda::argument_error>(call); };
    CHECK(refused([&] { g.apply("add_op", {x}); }) == "op 'add_op': 1 arguments given; it takes 2");
    CHECK(refused([&] { g.apply("tanh_op", {x}, 1); }) == "op 'tanh_op': has no output 1; it has 1");
    CHECK(refused([&] { g.gradient("add_op", 2, {x, x, x, x}); }) == "op 'add_op': has no input 2; it has 2");
    CHECK(refused([&] {
              g.gradient("greater_op", 0, {x, x, x, x});
          }) == "op 'greater_op': has no gradient; nothing flows back through it");
    CHECK(refused([&] {
              g.gradient_of("greater_op", {x, x}, 0, {});
          }) == "op 'greater_op': has no gradient; nothing flows back through it");
    CHECK(refused([&] {
              g.gradient("where_op", 0, {x, x, x, x, x});
          }).find("no gradient for that input") != std::string::npos);
    CHECK(refused([&] {
              g.gradient("tanh_op", 0, {x, y, jit::unused});
          }).find("given as unused") != std::string::npos);
    CHECK(refused([&] {
              g.apply("fully_connected_op", {x, y});
          }).find("no part of a fused kernel") != std::string::npos);
    const auto soft = g.apply("softmax_op", {x});
    CHECK(refused([&] {
              g.apply("batch_norm_op", {soft, x, y});
          }).find("reduces over other axes") != std::string::npos);
    CHECK(refused([&] { g.result(jit::unused, storage::f32); }) ==
          "result: is an unused value; give it a value");
    CHECK(refused([&] { g.result(x, storage::i32); }).find("writes float, fp16 or bf16") !=
          std::string::npos);
    CHECK(refused([&] { g.program(); }) == "graph: has no result; name one: graph.result(value, storage)");
    jit::graph other;
    const auto foreign = other.operand(storage::f32);
    CHECK(refused([&] { g.apply("tanh_op", {foreign}); }) ==
          "op 'tanh_op': is given a value of another graph; use values of one graph");

    // What was refused left nothing behind.
    jit::graph clean(ops);
    const auto a = clean.operand(storage::f32), b = clean.operand(storage::f32);
    const auto rows = clean.apply("softmax_op", {a});
    g.result(g.apply("add_op", {soft, y}), storage::f32);
    clean.result(clean.apply("add_op", {rows, b}), storage::f32);
    CHECK(fused::source_of(g.program()) == fused::source_of(clean.program()));

    // Neither did a reduction in front of the fault: other axes may still be reduced.
    jit::graph rows_of_images;
    const auto image = rows_of_images.operand(storage::f32);
    CHECK(refused([&] { rows_of_images.apply("layer_norm_op", {image, jit::unused, image}); }) != "none");
    CHECK(refused([&] { rows_of_images.apply("batch_norm_op", {image, image, image}); }) == "none");

    // Nor did the part of a gradient that was made again.
    jit::graph again, foreign_graph;
    const auto map = again.operand(storage::f32), elsewhere = foreign_graph.operand(storage::f32);
    CHECK(refused([&] { again.gradient_of("softmax_op", {map}, 0, {elsewhere}); }) != "none");
    CHECK(refused([&] { again.apply("batch_norm_op", {map, map, map}); }) == "none");

    // A graph is not longer than it can be; what no longer fits leaves it as it was.
    jit::graph longest;
    const auto only = longest.operand(storage::f32);
    for (int i = 1; i < 4096; ++i) longest.number(i);
    const std::string too_long = "graph: the kernel has too many steps; see kernel/fused_program.hpp";
    CHECK(refused([&] { longest.number(-1); }) == too_long);
    CHECK(refused([&] { longest.operand(storage::f16); }) == too_long);
    CHECK(refused([&] { longest.rounded(storage::f16, only); }) ==
          "rounded: the kernel has too many steps; see kernel/fused_program.hpp");
    CHECK(refused([&] {
              longest.apply("fully_connected_op", {only, only});
          }) == "op 'fully_connected_op': is not registered; add it: registry.add<Op>()");
    CHECK(refused([&] { longest.apply("tanh_op", {jit::unused}); }).find("given as unused") !=
          std::string::npos);
    longest.result(only, storage::f32);
    CHECK(longest.program().kinds.size() == 2);

    jit::graph full;
    for (int i = 0; i < 15; ++i) full.operand(storage::f32);
    full.result(full.number(1), storage::f32);
    CHECK(refused([&] { full.operand(storage::f32); }) ==
          "graph: has more than 16 operands and results; make two kernels of it");
}

TEST_CASE("what one kernel would count wrongly is refused: rows of several shapes", "[jit]") {
    jit::op_registry ops = jit::op_registry::standard();
    ops.add<echo::mean_op<echo::all_but(1)>>("channel_mean");
    const auto refused = [](auto call) { return error_of<echo::cuda::argument_error>(call); };
    const auto other_axes = std::string("reduces over other axes");
    // A mean's gradient divides by its own row's length, a loss' compares with its own row's positions.
    for (const bool first : {true, false}) {
        jit::graph g(ops);
        const auto x = g.operand(storage::f32), dy = g.operand(storage::f32);
        const auto norm = [&] { g.apply("batch_norm_op", {x, x, x}); };
        const auto back = [&] { g.gradient_of("mean_op", {x}, 0, {dy}); };
        CHECK(refused([&] { first ? norm() : back(); }) == "none");
        CHECK(refused([&] { first ? back() : norm(); }).find(other_axes) != std::string::npos);
        CHECK(refused([&] { g.gradient_of("channel_mean", {x}, 0, {dy}); }).find(other_axes) ==
              (first ? std::string::npos : std::string("op 'channel_mean': it ").size()));
    }
    jit::graph labels(ops);
    const auto p = labels.operand(storage::f32), label = labels.operand(storage::i32);
    labels.apply("batch_norm_op", {p, p, p});
    CHECK(refused([&] {
              labels.gradient("softmax_cross_entropy_op", 0, {p, jit::unused, label, jit::unused, p});
          }).find(other_axes) != std::string::npos);
    // What is left of a row has another last axis.
    jit::graph twice(ops);
    const auto y = twice.operand(storage::f32);
    const auto sum = twice.apply("sum_op", {y});
    CHECK(refused([&] { twice.apply("mean_op", {sum}); }).find(other_axes) != std::string::npos);
    CHECK(refused([&] { twice.apply("max_op", {twice.apply("exp_op", {sum})}); }).find(other_axes) !=
          std::string::npos);
    CHECK(refused([&] { twice.apply("softmax_op", {sum}); }).find(other_axes) != std::string::npos);
    CHECK(refused([&] { twice.apply("sum_op", {twice.apply("multiply_op", {sum, y})}); }) == "none");
    CHECK(refused([&] { twice.apply("sum_op", {twice.number(1)}); }) == "none");
}

TEST_CASE("a copy of a graph goes its own way", "[jit]") {
    jit::graph a;
    const auto x = a.operand(storage::f32);
    jit::graph b = a;
    const auto of_b = b.apply("exp_op", {x}); // x was there when b was made
    const auto of_a = a.apply("negate_op", {x});
    const auto refused = [](auto call) { return error_of<echo::cuda::argument_error>(call); };
    const std::string foreign = "op 'result': is given a value of another graph; use values of one graph";
    CHECK(refused([&] { a.result(of_b, storage::f32); }) == foreign);
    CHECK(refused([&] { b.result(of_a, storage::f32); }) == foreign);
    jit::graph c;
    c = b;
    c.result(of_b, storage::f32);
    b.result(of_b, storage::f32);
    CHECK(fused::source_of(b.program()) == fused::source_of(c.program()));
    jit::graph moved = std::move(c);
    CHECK(refused([&] { moved.result(moved.apply("tanh_op", {of_b}), storage::f32); }) == "none");
    STATIC_REQUIRE(!std::is_constructible_v<jit::graph, jit::op_registry>); // it would be gone
}

TEST_CASE("source depends on the graph alone; equal graphs share a kernel", "[jit]") {
    CHECK(fused::source_of(attention().program()) == fused::source_of(attention().program()));
    CHECK(fused::source_of(attention().program()) != fused::source_of(attention(storage::f16).program()));
    // What no result needs is not in it.
    auto g = attention();
    static_cast<void>(g.apply("erf_op", {g.number(3)}));
    CHECK(fused::source_of(g.program()) == fused::source_of(attention().program()));
}

TEST_CASE("code for each architecture, without a GPU", "[jit]") {
    if (!have_nvrtc()) return;
    jit::compiler compiler({.cache = {}});
    for (const int architecture : {75, 80, 90}) {
        const auto k = compiler.compile(attention(), architecture);
        CHECK(!k.code().is_ptx);
        CHECK(k.code().bytes.substr(0, 4) == "\x7f"
                                             "ELF");
        CHECK(k.results() == 1);
        CHECK(k.operands() == 3);
    }
    CHECK(compiler.seen().compiled == 3);
    // A card that NVRTC does not know yet gets PTX of the newest that it does.
    const auto newer = compiler.compile(attention(), 999);
    CHECK(newer.code().is_ptx);
    CHECK(newer.code().bytes.find(".visible .entry echo_fused") != std::string::npos);
    // It is PTX still when it comes from disk.
    const folder kept;
    for (const std::size_t found : {0u, 1u}) {
        jit::compiler c({.cache = kept.path()});
        const auto k = c.compile(attention(), 999);
        CHECK(k.code().is_ptx);
        CHECK(k.code().bytes == newer.code().bytes);
        CHECK(c.seen().on_disk == found);
    }
    CHECK(error_of<echo::cuda::error>([&] {
              compiler.compile(attention(), 35);
          }).find("makes no code for sm_35") != std::string::npos);
}

TEST_CASE("generated code takes 16 bytes at a time and spills nothing", "[jit]") {
    if (!have_nvrtc()) return;
    const jit::nvrtc n;
    std::vector<jit::graph> graphs{attention(), attention(storage::bf16)};
    jit::graph soft, norm, gelu;
    soft.result(soft.apply("softmax_op", {soft.operand(storage::f32)}), storage::f32);
    graphs.push_back(soft);
    const auto x = norm.operand(storage::f16), gamma = norm.operand(storage::f16),
               beta = norm.operand(storage::f16);
    norm.result(norm.gradient_of("layer_norm_op", {x, gamma, beta}, 0, {norm.operand(storage::f16)}),
                storage::f16);
    graphs.push_back(norm);
    const auto u = gelu.operand(storage::f16), v = gelu.operand(storage::f32),
               dy = gelu.operand(storage::f32);
    gelu.result(gelu.gradient_of("gelu_tanh_op", {gelu.apply("add_op", {u, v})}, 0, {dy}), storage::f32);
    graphs.push_back(gelu);
    for (const auto& g : graphs) {
        const std::string source = fused::source_of(g.program());
        const auto ptx = n.compile(source, {"--gpu-architecture=compute_80", "--std=c++17"});
        CHECK(ptx.bytes.find("ld.global.v4") != std::string::npos);
        CHECK(ptx.bytes.find("st.global.v4") != std::string::npos);
        CHECK(ptx.bytes.find(".local") == std::string::npos);
        for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
            const auto code = n.compile(source, {std::string("--gpu-architecture=") + architecture,
                                                 "--std=c++17", "--ptxas-options=--verbose"});
            INFO(code.log);
            CHECK(code.log.find("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") !=
                  std::string::npos);
        }
    }
}

TEST_CASE("kernels are kept on disk, and a file is believed only whole", "[jit]") {
    if (!have_nvrtc()) return;
    const folder kept;
    const jit::compiler_options options{.cache = kept.path() / "below"};
    std::string first;
    {
        jit::compiler c(options);
        first = c.compile(attention(), 80).code().bytes;
        CHECK(c.compile(attention(), 80).code().bytes == first);
        CHECK(c.seen().compiled == 1);
        CHECK(c.seen().in_memory == 1);
        CHECK(c.seen().not_stored == 0);
    }
    const auto again = [&] {
        jit::compiler c(options);
        CHECK(c.compile(attention(), 80).code().bytes == first);
        return c.seen();
    };
    CHECK(again().on_disk == 1);
    const auto files = [&] {
        std::vector<std::filesystem::path> all;
        for (const auto& f : std::filesystem::directory_iterator(options.cache)) all.push_back(f.path());
        return all;
    };
    REQUIRE(files().size() == 1); // nothing half-written lies about
    const auto file = files()[0];
    const std::string whole = contents(file);

    for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{17}, std::size_t{25},
                                 std::size_t{40}, whole.size() / 2, whole.size() - 1}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 0x10);
        write(file, changed);
        const auto seen = again();
        CHECK(seen.damaged == 1);
        CHECK(seen.compiled == 1);
        CHECK(contents(file) == whole); // made anew
    }
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{7}, std::size_t{31}, std::size_t{32}, whole.size() - 1}) {
        write(file, whole.substr(0, size));
        CHECK(again().damaged == 1);
    }
    write(file, whole + "x");
    CHECK(again().damaged == 1);

    // Another key's file under this name: its own checksum holds, but it is not believed.
    {
        jit::compiler c(options);
        c.compile(attention(), 75);
    }
    for (const auto& f : files())
        if (f != file) std::filesystem::copy_file(f, file, std::filesystem::copy_options::overwrite_existing);
    CHECK(again().damaged == 1);
    CHECK(again().on_disk == 1);

    // Other options and other architectures have keys of their own.
    jit::compiler exact({.cache = options.cache, .nvrtc = {}, .contract = false});
    exact.compile(attention(), 80);
    CHECK(exact.seen().compiled == 1);
}

TEST_CASE("what lies in the place of a kept kernel and is no file", "[jit]") {
    const folder kept;
    const jit::disk_cache cache(kept.path());
    const auto file = cache.file_of("key");
    CHECK(cache.load("key").first == jit::disk_cache::outcome::absent);
    std::filesystem::create_directory(file);
    CHECK(cache.load("key").first == jit::disk_cache::outcome::damaged);
    CHECK(!cache.store("key", "code"));
    CHECK(kept.files().size() == 1); // nothing half-written lies about
    std::filesystem::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0); // whoever reads it waits for a writer
    CHECK(cache.load("key").first == jit::disk_cache::outcome::damaged);
    CHECK(cache.store("key", "code"));
    CHECK(cache.load("key") == std::pair(jit::disk_cache::outcome::found, std::string("code")));
    // A link is followed to read and replaced to write; one to nowhere is as good as nothing.
    std::filesystem::rename(file, kept.path() / "elsewhere");
    std::filesystem::create_symlink(kept.path() / "elsewhere", file);
    CHECK(cache.load("key").second == "code");
    CHECK(cache.store("key", "other"));
    CHECK(cache.load("key").second == "other");
    CHECK(!std::filesystem::is_symlink(file));
    std::filesystem::remove(file);
    std::filesystem::create_symlink(file, file);
    CHECK(cache.load("key").first == jit::disk_cache::outcome::absent);
    // Long code, zeros in it, none at all, an empty key.
    const std::string code(3 * 4096, '\0');
    CHECK(cache.store("key", code));
    CHECK(cache.load("key").second == code);
    CHECK(cache.store("", ""));
    CHECK(cache.load("") == std::pair(jit::disk_cache::outcome::found, std::string()));
    CHECK(jit::disk_cache({}).load("key").first == jit::disk_cache::outcome::absent);
    CHECK(!jit::disk_cache({}).store("key", code));
}

TEST_CASE("a folder that cannot be written costs time, not kernels", "[jit]") {
    if (!have_nvrtc()) return;
    const folder kept;
    write(kept.path() / "file", "in the way");
    jit::compiler c({.cache = kept.path() / "file"});
    CHECK(!c.compile(attention(), 80).code().bytes.empty());
    CHECK(c.seen().not_stored == 1);
}

TEST_CASE("several threads and several compilers of one folder", "[jit]") {
    if (!have_nvrtc()) return;
    const folder kept;
    jit::compiler shared({.cache = kept.path()});
    std::vector<std::thread> threads;
    std::vector<std::string> made(4);
    for (std::size_t t = 0; t < made.size(); ++t)
        threads.emplace_back([&, t] {
            if (t < 2) {
                made[t] = shared.compile(attention(), 80).code().bytes;
            } else {
                jit::compiler own({.cache = kept.path()});
                made[t] = own.compile(attention(), 80).code().bytes;
            }
        });
    for (auto& t : threads) t.join();
    for (const auto& bytes : made) CHECK(bytes == made[0]);
    CHECK(kept.files().size() == 1);
}

TEST_CASE("what is missing is said", "[jit]") {
    jit::compiler without({.cache = {}, .nvrtc = "/nowhere/libnvrtc.so"});
    CHECK(error_of<jit::compiler_missing>([&] {
              without.compile(attention(), 80);
          }).starts_with("NVRTC: cannot be loaded: /nowhere/libnvrtc.so: "));
    // A library that is not NVRTC.
    jit::compiler wrong({.cache = {}, .nvrtc = "libm.so.6"});
    CHECK(error_of<jit::compiler_missing>([&] {
              wrong.compile(attention(), 80);
          }).starts_with("NVRTC: cannot be loaded: it has no nvrtcVersion"));
    if (have_nvrtc()) {
        const jit::nvrtc n;
        const auto text = error_of<jit::compile_error>(
            [&] { n.compile("__device__ int f() { return x; }", {"--gpu-architecture=sm_80"}); });
        CHECK(
            text.starts_with("nvrtcCompileProgram: echo_fused.cu(1): error: identifier \"x\" is undefined"));
        CHECK(text.find('\n') == text.npos);
    }
    if (!jit::shared_library::first_of({"libcuda.so.1"}).loaded()) {
        jit::compiler c({.cache = {}});
        try {
            c.compile(attention());
            FAIL("there is no driver, yet an architecture was found");
        } catch (const echo::cuda::error& e) {
            CHECK(e.kind() == echo::cuda::fault::no_driver);
            CHECK(std::string(e.what()).starts_with("libcuda: cannot be loaded: "));
        }
    }
}

TEST_CASE("a call is checked before anything is launched", "[jit]") {
    if (!have_nvrtc()) return;
    jit::compiler c({.cache = {}});
    const auto k = c.compile(attention(), 80);
    static float x[24], y[24];
    const fused::extents e{2, 3, 4};
    const jit::any_operand to = whole(y, e), q = spread(x, {2, 1, 4}, e), whole_x = whole(x, e);
    jit::detail::parameters made;
    const auto prepare = [&](const std::vector<jit::any_operand>& results,
                             const std::vector<jit::any_operand>& operands) {
        return error_of<echo::cuda::argument_error>([&] { k.prepare(results, operands, e, made); });
    };
    CHECK(prepare({to}, {q, whole_x, whole_x}) == "none");
    CHECK(made.shape.line == 4);
    CHECK(prepare({to}, {q, whole_x}) == "generated kernel: 1 results and 2 operands given; it has 1 and 3");
    static echo::cuda::half h[24];
    CHECK(prepare({to}, {q, whole(h, e), whole_x}) ==
          "generated kernel, operand 1: is stored in another way than the graph said; give the graph's type");
    CHECK(prepare({whole(h, e)}, {q, whole_x, whole_x}) ==
          "generated kernel, result 0: is stored in another way than the graph said; give the graph's type");
    CHECK(prepare({whole(static_cast<const float*>(y), e)}, {q, whole_x, whole_x}) ==
          "generated kernel, result 0: is const; give memory that may be written");
    CHECK(prepare({to}, {q, whole(static_cast<const float*>(x), e), whole_x}) == "none");
    CHECK(prepare({whole_x}, {q, whole_x, whole_x}).find("overlaps operand 0") != std::string::npos);
    const fused::extents none{0, 3, 4};
    CHECK(!k.prepare(std::vector<jit::any_operand>{whole(y, none)},
                     std::vector<jit::any_operand>{whole(x, none), whole(x, none), whole(x, none)}, none,
                     made));
}

TEST_CASE("few long rows are refused before a driver is asked for", "[jit]") {
    if (!have_nvrtc()) return;
    jit::compiler c({.cache = {}});
    jit::graph g;
    const auto x = g.operand(storage::f32);
    g.result(g.apply("softmax_op", {x}), storage::f32);
    const auto k = c.compile(g, 80);
    const fused::extents e{64, 401408};
    const jit::any_operand to = whole(reinterpret_cast<float*>(std::uintptr_t{1} << 40),
                                      e), // nobody looks there
        from = whole(reinterpret_cast<const float*>(std::uintptr_t{1} << 41), e);
    CHECK(
        error_of<echo::cuda::argument_error>([&] { k({to}, {from}, e, echo::cuda::default_stream); }) ==
        "fused, extents: 64 rows of 401408 elements would keep only 64 warps of the card busy; reduce parts "
        "of each row, as rows of their own, and their results in a second call");
}

TEST_CASE("a kernel for one layout has it as constants, and takes no other", "[jit]") {
    if (!have_nvrtc()) return;
    jit::compiler c({.cache = {}});
    alignas(16) static float x[60], y[60];
    const fused::extents e{2, 3, 8};
    const auto made_for = [&](const fused::extents& over) {
        return std::pair<std::vector<jit::any_operand>, std::vector<jit::any_operand>>{
            {whole(y, over)}, {spread(x, {over.of[0], 1, over.of[2]}, over), whole(x, over), whole(x, over)}};
    };
    const auto [to, from] = made_for(e);
    const auto k = c.compile_for(attention(), to, from, e, 80);
    CHECK(k.source().find("{p.operand[1].data, {0ll, 8ll, 0ll, 1ll}, 0u, 0u}") != std::string::npos);
    CHECK(k.source() != c.compile(attention(), 80).source());
    CHECK(c.compile_for(attention(), to, from, e, 80).source() == k.source());
    CHECK(c.seen().compiled == 2);
    jit::detail::parameters out;
    const auto prepare = [&](const auto& results, const auto& operands, const fused::extents& over) {
        return error_of<echo::cuda::argument_error>([&] { k.prepare(results, operands, over, out); });
    };
    const std::string other =
        "generated kernel: was compiled for other extents, strides or alignments; compile it for "
        "these, or for any: compiler.compile(graph)";
    CHECK(prepare(to, from, e) == "none");
    CHECK(prepare(std::vector<jit::any_operand>{whole(y + 4, e)}, from, e) == "none"); // another address
    CHECK(prepare(std::vector<jit::any_operand>{whole(y + 1, e)}, from, e) == other);  // another alignment
    const fused::extents wider{2, 3, 4};
    const auto [to_other, from_other] = made_for(wider);
    CHECK(prepare(to_other, from_other, wider) == other);
    CHECK(prepare(to, std::vector<jit::any_operand>{from[1], from[1], from[1]}, e) == other);
    const fused::extents none{0, 3, 8};
    const auto [to_none, from_none] = made_for(none);
    CHECK(prepare(to_none, from_none, none) == "none");
    CHECK(error_of<echo::cuda::argument_error>([&] {
              c.compile_for(attention(), to_none, from_none, none, 80);
          }) == "generated kernel: has nothing to compute; give extents of 1 or more");
}

TEST_CASE("an operand that the kernel does not read may be anything; labels are exact", "[jit]") {
    if (!have_nvrtc()) return;
    jit::compiler c({.cache = {}});
    jit::graph g;
    const auto scores = g.operand(storage::f32);
    g.operand(storage::f16);
    const auto label = g.operand(storage::i32);
    g.result(g.apply("softmax_cross_entropy_op", {scores, label}), storage::f32);
    const auto k = c.compile(g, 80);
    CHECK((k.reads(0) && !k.reads(1) && k.reads(2)));
    static float x[5], y[1];
    static std::int32_t labels[1];
    jit::detail::parameters made;
    const auto prepare = [&](const jit::any_operand& unread, std::int64_t length) {
        const fused::extents e{1, length};
        return error_of<echo::cuda::argument_error>([&] {
            k.prepare(std::vector<jit::any_operand>{per_row(y, e)},
                      std::vector<jit::any_operand>{fused::strided(x, {0, 0}), unread, per_row(labels, e)}, e,
                      made);
        });
    };
    CHECK(prepare({}, 5) == "none");
    CHECK(prepare({y, storage::bf16, {-1, -1}}, 5) == "none"); // though it lies on the result
    CHECK(prepare({}, 1 << 24) == "none");
    CHECK(prepare({}, (1 << 24) + 1).find("labels are exact up to 2^24") != std::string::npos);
}

TEST_CASE("the first use of a kernel, in time", "[jit]") {
    if (!have_nvrtc()) return;
    const auto start = std::chrono::steady_clock::now();
    jit::compiler c({.cache = {}});
    c.compile(attention(), 90);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("  %.3f s to compile a kernel for the first time\n", took.count());
    CHECK(took.count() < 10); // a machine that is busy otherwise; bench/cuda measures it
}
