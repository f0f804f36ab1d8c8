// SPDX-License-Identifier: BSL-1.0
#include "memory.hpp"

#include <algorithm>

namespace ptx {

region& memory::add(void* at, std::size_t bytes, std::string name) {
    auto r = std::make_unique<region>();
    r->begin = reinterpret_cast<std::uint64_t>(at);
    r->end = r->begin + bytes;
    r->data = static_cast<std::byte*>(at);
    r->name = std::move(name);
    r->facts = std::make_unique<byte_facts[]>(bytes);
    // Whatever is left of memory that was given back in between.
    for (auto i = regions_.upper_bound(r->begin); i != regions_.end() && i->second->begin < r->end;)
        i = regions_.erase(i);
    auto& kept = regions_[r->end];
    kept = std::move(r);
    return *kept;
}

region* memory::find(std::uint64_t at) {
    const auto found = regions_.upper_bound(at);
    return found != regions_.end() && found->second->begin <= at ? found->second.get() : nullptr;
}

void memory::remove(const void* at) {
    const auto begin = reinterpret_cast<std::uint64_t>(at);
    const auto found = regions_.upper_bound(begin);
    if (found != regions_.end() && found->second->begin == begin) regions_.erase(found);
}

void memory::written(const void* at, std::size_t bytes) {
    auto begin = reinterpret_cast<std::uint64_t>(at);
    const auto end = begin + bytes;
    while (begin < end) {
        region* r = find(begin);
        if (!r) return; // not the device's
        const auto stop = std::min(end, r->end);
        std::fill(r->facts.get() + (begin - r->begin), r->facts.get() + (stop - r->begin),
                  byte_facts{actor::host, actor::nobody, 0});
        begin = stop;
    }
}

void memory::forget(const void* at, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uint64_t>(at);
    region* r = find(begin);
    if (!r) return;
    std::fill(r->facts.get() + (begin - r->begin),
              r->facts.get() + (std::min(begin + bytes, r->end) - r->begin), byte_facts{});
}

void memory::forget_actors() {
    for (auto& [end, r] : regions_)
        for (std::size_t i = 0; i < r->end - r->begin; ++i) {
            byte_facts& b = r->facts[i];
            b.writer = b.writer == actor::nobody ? actor::nobody : actor::host;
            b.reader = actor::nobody;
        }
}

} // namespace ptx
