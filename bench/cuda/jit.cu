// SPDX-License-Identifier: BSL-1.0
// What a kernel generated at run time costs: its first use, compiled or from disk, and every later launch
// beside a launch of the same kernel compiled by nvcc.
#include "measure.cuh"

#include <echo/cuda/fused.cuh>
#include <echo/cuda/jit.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace {

using namespace echo::cuda::fused;
namespace jit = echo::cuda::jit;

using attention = apply<echo::tanh_op, apply<echo::add_op, arg<0>, arg<1>>>;
using attention_gradient = fuse<gradient_of<attention, 0, arg<2>>>;

jit::graph gradient_graph() {
    jit::graph g;
    const auto q = g.operand(storage::f32), k = g.operand(storage::f32), dy = g.operand(storage::f32);
    g.result(g.gradient_of("tanh_op", {g.apply("add_op", {q, k})}, 0, {dy}), storage::f32);
    return g;
}

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void measure(const echo::cuda::stream& own) {
    const extents e{1024};
    const bench::memory data(4 * 4096);
    auto* const at = data.as<float>();
    const auto to = whole(at + 3 * 1024, e), q = whole(at, e), k = whole(at + 1024, e),
               dy = whole(at + 2 * 1024, e);
    std::string name = (std::filesystem::temp_directory_path() / "echo-jit-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");

    const auto plain = [&] { run<attention_gradient>(results(to), operands(q, k, dy), e, own); };
    plain(); // the context, and the runtime's own first time
    own.wait();
    const auto first_use = [&](const char* what) {
        const double begin = seconds_now();
        jit::compiler compiler({.cache = name});
        compiler.compile(gradient_graph())({to}, {q, k, dy}, e, own);
        own.wait();
        const double seconds = seconds_now() - begin;
        bench::print("jit", what, "float", 0, "s", seconds, seconds * 1e3, "", 0);
    };
    first_use("first use, compiled");
    first_use("first use, from disk");

    // Time of this thread from call to call, the device kept from falling behind.
    jit::compiler compiler({.cache = name});
    const auto kernel = compiler.compile(gradient_graph());
    const auto later = [&] { kernel({to}, {q, k, dy}, e, own); };
    const auto microseconds = [&](auto& call) {
        own.wait();
        const double begin = seconds_now();
        for (int i = 0; i < 200; ++i) call();
        return (seconds_now() - begin) / 200 * 1e6;
    };
    std::vector<double> of_plain, of_later, more;
    for (int round = 0; round < 101; ++round) {
        of_plain.push_back(microseconds(plain));
        of_later.push_back(microseconds(later));
        more.push_back(of_later.back() - of_plain.back());
    }
    bench::print("jit", "a later launch", "float", 0, "us more", bench::median(more),
                 bench::median(of_later) / 1e3, "a plain launch", bench::median(of_plain) / 1e3);
    std::error_code ignored;
    std::filesystem::remove_all(name, ignored);
}

} // namespace

int main() {
    return bench::run("jit", [](const echo::cuda::stream& own) { measure(own); });
}
