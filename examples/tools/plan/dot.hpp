// SPDX-License-Identifier: BSL-1.0
/// @file
/// The graph and its plan for Graphviz: what runs again, what runs late, what is stashed, what is encoded.
#pragma once

#include "format/json_out.hpp"
#include "format/plan_document.hpp"

#include <echo/graph/graphviz.hpp>

#include <array>
#include <ostream>
#include <streambuf>
#include <string_view>
#include <vector>

namespace echo::format {

/// A stream into a sink. What the sink throws passes through.
class sink_buffer : public std::streambuf {
public:
    explicit sink_buffer(byte_sink sink) : sink_(std::move(sink)) {
        setp(buffer_.data(), buffer_.data() + buffer_.size());
    }
    void flush() {
        sink_({pbase(), static_cast<std::size_t>(pptr() - pbase())});
        setp(buffer_.data(), buffer_.data() + buffer_.size());
    }

protected:
    int_type overflow(int_type c) override {
        flush();
        if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
        return sputc(traits_type::to_char_type(c));
    }

private:
    byte_sink sink_;
    std::array<char, 1 << 16> buffer_;
};

/// O(nodes + edges + steps).
inline void write_dot(const byte_sink& sink, const snapshot& s, const schedule& steps) {
    std::vector<bool> again(s.node_count()), inside(s.node_count()), absent(s.node_count(), true),
        late(s.node_count()), stashed(s.value_count()), encoded(s.value_count()), away(s.value_count());
    const step_id boundary = first_backward_step(s, steps);
    for (const auto t : steps.steps()) {
        const step_record& step = steps[t];
        const auto n = step.node.index();
        if (step.kind == step_kind::encode) {
            encoded[held_value(s, steps, {t, 0}).index()] = true;
        } else if (step.kind == step_kind::recompute) {
            (step.fused ? inside : again)[n] = true;
        } else if (step.kind == step_kind::offload) {
            away[held_value(s, steps, {t, 0}).index()] = true;
        } else if (step.kind == step_kind::run) {
            absent[n] = false;
            late[n] = s[step.node].phase == phase::forward && t > boundary;
        }
    }
    for (const auto c : stash_of(s, steps))
        if (!is_encoding(steps, c)) stashed[held_value(s, steps, c).index()] = true;

    sink_buffer buffer(sink);
    std::ostream out(&buffer);
    out.exceptions(std::ios::badbit | std::ios::failbit);
    write_graphviz(
        out, s,
        [&](node_id n) -> graphviz_style {
            if (again[n.index()]) return {"orange", "recomputed"};
            if (inside[n.index()]) return {"gold", "recomputed in its readers"};
            if (absent[n.index()]) return {"white", "left out"};
            if (late[n.index()]) return {"khaki", "runs late"};
            constexpr std::string_view colours[] = {"lightgrey", "white", "lightblue", "lightyellow"};
            return {std::string(colours[static_cast<std::size_t>(s[n].phase)]), ""};
        },
        [&](value_id v) -> graphviz_style {
            if (away[v.index()]) return {"blue", "waits in the host's memory"};
            if (encoded[v.index()])
                return {"forestgreen", stashed[v.index()] ? "stashed, encoded" : "encoded"};
            if (stashed[v.index()]) return {"red", "stashed"};
            return {};
        });
    out.flush();
    buffer.flush();
}

} // namespace echo::format
