// SPDX-License-Identifier: BSL-1.0
#include "device.hpp"
#include "state.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

namespace ptx {
namespace {

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::string line_of(const std::string& text, std::uint32_t line) {
    std::size_t begin = 0;
    for (std::uint32_t n = 1; n < line; ++n) {
        begin = text.find('\n', begin);
        if (begin == text.npos) return "";
        ++begin;
    }
    return text.substr(begin, text.find('\n', begin) - begin);
}

/// Plants the fault that the environment names in every text that has the kernel and the line.
void plant(module& in) {
    const std::string path = environment("ECHO_PTX_PLANT");
    if (path.empty()) return;
    std::ifstream file(path);
    std::string kernel, line, before, after;
    std::getline(file, kernel), std::getline(file, line), std::getline(file, before),
        std::getline(file, after);
    if (in.text().find(kernel) == std::string::npos) return;
    const auto number = static_cast<std::uint32_t>(std::strtoul(line.c_str(), nullptr, 10));
    if (line_of(in.text(), number) == before) in.replace_line(number, after);
}

std::string quoted(const std::string& s) {
    std::string out = "\"";
    for (const char c : s) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

} // namespace

device_state& device_state::get() {
    static device_state one;
    static const bool told = [] {
        if (const auto steps = environment("ECHO_PTX_STEPS"); !steps.empty())
            one.on.how.most_steps = std::strtoull(steps.c_str(), nullptr, 10);
        if (const auto part = environment("ECHO_PTX_APPROXIMATION"); !part.empty())
            one.on.how.approximation = std::strtod(part.c_str(), nullptr);
        return true;
    }();
    static_cast<void>(told);
    return one;
}

module& device_state::add_module(const std::string& name, std::string text) {
    modules.emplace_back(name, std::move(text));
    plant(modules.back());
    if (const auto folder = environment("ECHO_PTX_DUMP"); !folder.empty())
        std::ofstream(folder + "/" + name + ".ptx", std::ios::binary) << modules.back().text();
    return modules.back();
}

int device_state::launch(module& from, const std::string& kernel, extent3 grid, extent3 block,
                         std::uint32_t shared, const void* const* arguments) {
    try {
        const function* f = from.find(kernel);
        if (!f) {
            fault = "no kernel " + kernel + " in " + from.name();
            return 98; // cudaErrorInvalidDeviceFunction
        }
        for (const auto& [name, v] : from.globals())
            if (!on.global.find(v.offset)) {
                auto* const at = reinterpret_cast<void*>(v.offset);
                on.global.add(at, v.bytes, name);
                on.global.written(at, v.bytes);
            }
        // Texts of generated kernels all have one name.
        last_kernel = from.name().starts_with("generated") ? from.name() : kernel;
        groups[last_kernel].insert(group);
        before_last = warp_instructions();
        on.launch(from, *f, grid, block, shared, arguments, last_kernel);
        after_last = warp_instructions();
        return 0;
    } catch (const ptx::fault& e) {
        after_last = warp_instructions();
        fault = e.what();
        std::cerr << "PTX: " << fault << std::endl;
        return 719; // cudaErrorLaunchFailure
    }
}

std::uint64_t device_state::warp_instructions() const {
    std::uint64_t all = 0;
    for (const auto& [name, c] : on.counted) all += c.warp_instructions;
    return all;
}

device_state::~device_state() {
    const auto path = environment("ECHO_PTX_REPORT");
    if (path.empty()) return;
    std::ofstream to(path);
    to << "{";
    const char* between = "\n";
    for (const auto& [name, c] : on.counted) {
        const outcomes o = reported.contains(name) ? reported.at(name) : outcomes{};
        std::size_t ran = 0;
        for (const auto n : c.executed) ran += n != 0;
        to << between << quoted(name) << ": {\"launches\": " << c.launches << ", \"warps\": " << c.warps
           << ", \"warp_instructions\": " << c.warp_instructions
           << ", \"lane_instructions\": " << c.lane_instructions << ", \"loads\": " << c.loads
           << ", \"stores\": " << c.stores << ", \"sectors_loaded\": " << c.sectors_loaded
           << ", \"sectors_stored\": " << c.sectors_stored << ", \"instructions\": " << c.executed.size()
           << ", \"executed\": " << ran << ", \"cases\": " << o.cases << ", \"equal\": " << o.equal
           << ", \"elements\": " << o.elements << ", \"case_warp_instructions\": " << o.warp_instructions
           << ", \"groups\": [";
        const char* behind = "";
        if (const auto found = groups.find(name); found != groups.end())
            for (const auto& each : found->second) to << behind << quoted(each), behind = ", ";
        to << "], \"lines\": [";
        const char* comma = "";
        for (std::size_t i = 0; i < c.executed.size(); ++i)
            if (c.executed[i]) to << comma << c.lines[i], comma = ",";
        to << "]}";
        between = ",\n";
    }
    to << "\n}\n";
}

} // namespace ptx

namespace {
ptx::device_state& state() { return ptx::device_state::get(); }
} // namespace

extern "C" {

void echo_ptx_add(void* at, std::size_t bytes, const char* name) { state().on.global.add(at, bytes, name); }
void echo_ptx_remove(const void* at) { state().on.global.remove(at); }
void echo_ptx_written(const void* at, std::size_t bytes) { state().on.global.written(at, bytes); }
void echo_ptx_forget(const void* at, std::size_t bytes) { state().on.global.forget(at, bytes); }
void echo_ptx_approximation(double part) { state().on.how.approximation = part; }
const char* echo_ptx_fault() { return state().fault.c_str(); }
const char* echo_ptx_kernel() { return state().last_kernel.c_str(); }
unsigned long long echo_ptx_warp_instructions() { return state().warp_instructions(); }
const char* echo_ptx_writer(const void* at) {
    static std::string words;
    words = state().on.writer_of(reinterpret_cast<std::uint64_t>(at));
    return words.c_str();
}
void echo_ptx_group(const char* name) { state().group = name; }
void echo_ptx_elements(unsigned long long count, int equal) {
    auto& o = state().reported[state().last_kernel];
    ++o.cases;
    o.equal += equal != 0;
    o.elements += count;
    o.warp_instructions += state().after_last - state().before_last;
}

} // extern "C"
