// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/onednn.hpp"

#include <map>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace engine::cpu::onednn {
namespace {

dnnl::stream& stream() {
    static thread_local dnnl::stream one(processor());
    return one;
}

} // namespace

dims image_dims(const echo::shape& shape, bool channels_last) {
    if (channels_last) return {shape[0], shape[3], shape[1], shape[2]};
    return {shape[0], shape[1], shape[2], shape[3]};
}

const dnnl::primitive_attr& attributes() {
    static const dnnl::primitive_attr made = [] {
        dnnl::primitive_attr attr;
        attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        return attr;
    }();
    return made;
}

dnnl::engine& processor() {
    static thread_local dnnl::engine one(dnnl::engine::kind::cpu, 0);
    return one;
}

std::uint64_t kernel::take(std::uint64_t bytes) {
    const std::uint64_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
}

kernel::kernel(dnnl::primitive run, const desc& scratchpad, std::initializer_list<argument> arguments)
    : run_(std::move(run)) {
    std::uint64_t most = scratchpad.get_size(); // one reorder, or the primitive, runs at a time
    std::vector<std::pair<std::size_t, desc>> reorder_scratch;
    for (const argument& a : arguments) {
        placed p{.given = dnnl::memory(a.given, processor(), nullptr),
                 .taken = dnnl::memory(a.taken, processor(), nullptr),
                 .result = a.result};
        if (a.given == a.taken) {
            p.taken = p.given;
        } else {
            const desc& from = a.result ? a.taken : a.given;
            const desc& to = a.result ? a.given : a.taken;
            const dnnl::reorder::primitive_desc how(processor(), from, processor(), to, attributes());
            p.reorder = dnnl::reorder(how);
            p.reordered = true;
            p.reorder_arguments = {
                {DNNL_ARG_FROM, a.result ? p.taken : p.given},
                {DNNL_ARG_TO, a.result ? p.given : p.taken},
                {DNNL_ARG_SCRATCHPAD, dnnl::memory(how.scratchpad_desc(), processor(), nullptr)}};
            most = std::max<std::uint64_t>(most, how.scratchpad_desc().get_size());
            p.at = take(a.taken.get_size());
        }
        arguments_.insert({a.name, p.taken});
        placed_.push_back(std::move(p));
    }
    scratchpad_at_ = take(most);
    scratchpad_ = dnnl::memory(scratchpad, processor(), nullptr);
    arguments_.insert({DNNL_ARG_SCRATCHPAD, scratchpad_});
}

void kernel::operator()(std::initializer_list<const void*> data, std::span<std::byte> scratch) {
    const auto point = [](dnnl::memory& m, const void* at) {
        m.set_data_handle(const_cast<void*>(at)); // oneDNN has no memory that is only read
    };
    std::byte* const working = scratch.data() + scratchpad_at_;
    point(scratchpad_, working);
    std::size_t i = 0;
    for (const void* at : data) {
        placed& p = placed_[i++];
        point(p.given, at);
        if (!p.reordered) continue;
        point(p.taken, scratch.data() + p.at);
        point(p.reorder_arguments.at(DNNL_ARG_SCRATCHPAD), working);
        if (!p.result) p.reorder.execute(stream(), p.reorder_arguments);
    }
    run_.execute(stream(), arguments_);
    for (placed& p : placed_)
        if (p.reordered && p.result) p.reorder.execute(stream(), p.reorder_arguments);
    stream().wait();
}

kernel& kernel_of(std::string_view op, geometry key, const context& on, const std::function<kernel()>& make) {
    static thread_local std::map<geometry, kernel> made; // a stream belongs to its thread
#ifdef _OPENMP
    omp_set_num_threads(on.threads()); // another context may have set it
#endif
    key.push_back(on.threads());
    const auto at = made.find(key);
    if (at != made.end()) return at->second;
    try {
        return made.emplace(std::move(key), make()).first->second;
    } catch (const dnnl::error& e) {
        throw echo::error({}, "op", std::string(op) + ": oneDNN says '" + e.what() + "'",
                          "check its attributes and shapes");
    }
}

} // namespace engine::cpu::onednn
