// SPDX-License-Identifier: BSL-1.0
/// @file
/// Fused kernels for hosts that know their ops at run time: a graph of registered ops becomes CUDA source, and NVRTC
/// makes device code of it, once; it is kept in memory and on disk. What is computed is what `fused::run` computes.
///
/// Needs no CUDA header and links with nothing: NVRTC and the driver's library are loaded when they are first needed,
/// so that a host with this door starts where neither is.
///
/// ```cpp
/// namespace jit = echo::cuda::jit;
/// jit::compiler compiler;                                        // kernels are kept in ~/.cache/echo/jit
/// jit::graph g;
/// const auto x = g.operand(jit::storage::f16), b = g.operand(jit::storage::f16);
/// g.result(g.apply("tanh_op", {g.apply("add_op", {x, b})}), jit::storage::f16);
/// const jit::kernel k = compiler.compile(g);                     // for the current device
/// k({whole(y, e)}, {whole(x_data, e), spread(b_data, {hidden}, e)}, e, stream);
/// // where extents are the same in every step, with extents and strides as constants in the code:
/// const jit::kernel once = compiler.compile_for(g, {whole(y, e)}, {whole(x_data, e), spread(b_data, {hidden}, e)}, e);
/// ```
#pragma once

#include <echo/cuda/jit/call.hpp>
#include <echo/cuda/jit/disk_cache.hpp>
#include <echo/cuda/jit/driver.hpp>
#include <echo/cuda/jit/graph.hpp>
#include <echo/cuda/jit/nvrtc.hpp>
#include <echo/cuda/kernel/source.hpp>
#include <echo/cuda/stream_ref.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace echo::cuda::jit {

namespace detail {

/// What a kernel is, once compiled, and where it was loaded.
struct compiled {
    fused::run_time_program program;
    std::string source;
    device_code code;
    std::optional<parameters> layout{}; ///< what it is made for; none: any

    struct loaded {
        std::uint64_t context; ///< its number
        driver::function function;
        int resident;
    };
    std::mutex mutex;
    std::vector<loaded> in; // contexts are few

    loaded here() {
        const driver& d = driver::get();
        const auto context = d.context_number();
        const std::lock_guard lock(mutex);
        for (const auto& l : in)
            if (l.context == context) return l;
        // A module stays for the life of its context: a kernel of it may still run.
        const auto code_module = d.load(code.bytes);
        try {
            const auto function = d.find(code_module, "echo_fused");
            in.push_back(
                {context, function, std::max(1, d.resident_blocks(function, 128) * d.multiprocessors())});
        } catch (...) {
            d.unload(code_module);
            throw;
        }
        return in.back();
    }
};

} // namespace detail

/// A compiled kernel: shared, cheap to copy, safe to run from several threads.
class kernel {
public:
    /// How many results a call writes.
    std::size_t results() const noexcept { return self_->program.results.size(); }
    /// How many operands a call reads.
    std::size_t operands() const noexcept { return self_->program.operands(); }
    /// Whether the kernel reads that operand; others may be null.
    bool reads(std::size_t operand) const { return self_->program.reads(operand); }
    /// Whether the kernel reduces rows.
    bool by_row() const noexcept { return self_->program.rows.by_row; }
    /// The CUDA C++ that it was compiled from.
    const std::string& source() const noexcept { return self_->source; }
    /// What it was compiled to.
    const device_code& code() const noexcept { return self_->code; }

    /// Checks a call and fills its parameters; false if there is nothing to do. What `operator()` launches.
    bool prepare(std::span<const any_operand> to, std::span<const any_operand> from, const fused::extents& e,
                 detail::parameters& out) const {
        const bool any = detail::prepare(self_->program, to, from, e, out);
        const auto& made_for = self_->layout;
        const std::size_t count = self_->program.kinds.size();
        if (any && made_for &&
            !fused::same_layout(out.shape, std::span(out.operands).first(count), made_for->shape,
                                std::span(made_for->operands).first(count)))
            throw argument_error("generated kernel", "was compiled for other extents, strides or alignments",
                                 "compile it for these, or for any: compiler.compile(graph)");
        return any;
    }

    /// Runs on the stream, in the current context, into which the first call loads the code (that allocates; not while
    /// capturing). Errors: `argument_error` as `fused::run` says, and for other counts or types than the graph's;
    /// `error` without a driver, a device or a context, and if the launch is refused.
    void operator()(std::span<const any_operand> to, std::span<const any_operand> from,
                    const fused::extents& e, stream_ref stream) const {
        detail::parameters arguments;
        if (!prepare(to, from, e, arguments)) return;
        if (by_row()) fused::check_row_count(arguments.shape);
        const auto loaded = self_->here();
        const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(
            (arguments.tiles(by_row()) + 3) / 4, static_cast<std::uint64_t>(loaded.resident)));
        void* list[] = {&arguments};
        driver::get().launch(loaded.function, blocks, 128, stream.get(), list);
    }
    /// Runs the kernel on these results and operands. Errors: `argument_error` for what does not fit,
    /// `error`.
    void operator()(std::initializer_list<any_operand> to, std::initializer_list<any_operand> from,
                    const fused::extents& e, stream_ref stream) const {
        (*this)(std::span(to.begin(), to.size()), std::span(from.begin(), from.size()), e, stream);
    }
    /// Loads the code into the current context, so that no later call does.
    void load() const { static_cast<void>(self_->here()); }

private:
    friend class compiler;
    explicit kernel(std::shared_ptr<detail::compiled> self) : self_(std::move(self)) {}
    std::shared_ptr<detail::compiled> self_;
};

/// How kernels are compiled and where they are kept.
struct compiler_options {
    std::filesystem::path cache = disk_cache::default_folder(); ///< empty: nothing is kept on disk
    std::string nvrtc{}; ///< the library's file; empty: wherever it is found
    /// A product and a sum may become one operation, rounded once, as nvcc does by default.
    bool contract = true;
};

/// Makes kernels. Keeps what it made; may be used from several threads, which then wait for each other.
class compiler {
public:
    /// Compiles nothing yet.
    explicit compiler(compiler_options options = {}) : options_(std::move(options)), disk_(options_.cache) {}

    /// How often what was asked for was there.
    struct counts {
        /// How often a kernel was in memory, on disk, or compiled.
        std::size_t in_memory = 0, on_disk = 0, compiled = 0;
        std::size_t damaged = 0;    ///< files that were not believed, and made anew
        std::size_t not_stored = 0; ///< files that could not be written
    };
    /// Counted since the compiler was made.
    counts seen() const {
        const std::lock_guard lock(mutex_);
        return counts_;
    }

    /// The graph's kernel for an architecture (90 is sm_90), or for the current device. Errors: as `graph::program`;
    /// `compiler_missing`; `compile_error`; `error` (`wrong_architecture`, and without a device if none is named).
    kernel compile(const graph& g, std::optional<int> architecture = std::nullopt) {
        return compile(g.program(), std::nullopt, architecture);
    }

    /// The graph's kernel for calls with these extents, strides and alignments alone, which are constants in it: its
    /// groups are found with fewer instructions, and each layout is compiled by itself. Addresses may be others later.
    /// Errors: as above, and those of preparing such a call; `argument_error` where there is nothing to compute.
    kernel compile_for(const graph& g, std::span<const any_operand> to, std::span<const any_operand> from,
                       const fused::extents& e, std::optional<int> architecture = std::nullopt) {
        fused::run_time_program program = g.program();
        detail::parameters layout;
        if (!detail::prepare(program, to, from, e, layout))
            throw argument_error("generated kernel", "has nothing to compute", "give extents of 1 or more");
        return compile(std::move(program), layout, architecture);
    }
    /// The same, for operands that are listed in the call.
    kernel compile_for(const graph& g, std::initializer_list<any_operand> to,
                       std::initializer_list<any_operand> from, const fused::extents& e,
                       std::optional<int> architecture = std::nullopt) {
        return compile_for(g, std::span(to.begin(), to.size()), std::span(from.begin(), from.size()), e,
                           architecture);
    }

private:
    kernel compile(fused::run_time_program program, std::optional<detail::parameters> layout,
                   std::optional<int> architecture) {
        std::string source =
            layout ? fused::source_of(
                         program, layout->shape,
                         std::span<const fused::launch_operand>(layout->operands).first(program.kinds.size()))
                   : fused::source_of(program);
        const int target = architecture ? *architecture : current_architecture();
        const std::lock_guard lock(mutex_);
        if (!nvrtc_) nvrtc_.emplace(options_.nvrtc);
        const std::vector<std::string> flags{nvrtc_->target(target), "--std=c++17",
                                             options_.contract ? "--fmad=true" : "--fmad=false"};
        std::string key = "NVRTC " + nvrtc_->version() + "\n";
        for (const auto& flag : flags) key += flag + "\n";
        key += source;
        if (const auto found = made_.find(key); found != made_.end()) {
            ++counts_.in_memory;
            return kernel(found->second);
        }
        auto made = std::make_shared<detail::compiled>();
        made->code = code_of(key, source, flags);
        made->source = std::move(source);
        made->program = std::move(program);
        made->layout = layout;
        made_.emplace(std::move(key), made);
        return kernel(std::move(made));
    }

    static int current_architecture() {
        const driver& d = driver::get();
        static_cast<void>(d.current_context());
        return d.architecture();
    }
    device_code code_of(const std::string& key, const std::string& source,
                        const std::vector<std::string>& flags) {
        auto [outcome, bytes] = disk_.load(key);
        if (outcome == disk_cache::outcome::found) {
            ++counts_.on_disk;
            return {std::move(bytes), flags[0].find("compute_") != flags[0].npos};
        }
        counts_.damaged += outcome == disk_cache::outcome::damaged;
        device_code code = nvrtc_->compile(source, flags);
        ++counts_.compiled;
        counts_.not_stored += !disk_.folder().empty() && !disk_.store(key, code.bytes);
        return code;
    }

    compiler_options options_;
    disk_cache disk_;
    mutable std::mutex mutex_;
    std::optional<nvrtc> nvrtc_;
    std::map<std::string, std::shared_ptr<detail::compiled>> made_;
    counts counts_;
};

} // namespace echo::cuda::jit
