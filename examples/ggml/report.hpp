// SPDX-License-Identifier: BSL-1.0
/// @file
/// The report that ECHO_REPORT asks for: one entry for each graph that was seen, as text, as JSON, or as a page. The
/// page of a name that ends in .html holds the text; each graph and its plan stand beside it as files. `echo-plan`
/// draws them, where there is one, into pages that this one links to; the line that does so is said and stands in the
/// page.
#pragma once

#include "choose.hpp"
#include "format/saved_step.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace echo_ggml {

/// A graph and what was done with it.
struct entry {
    decision made{};
    std::size_t clones = 0, uses = 0, number = 0;
    std::size_t applied = 0; ///< uses in which the graph was rewritten
    double first_ms = 0,
           later_ms = 0; ///< to plan it; to find and apply the plan again, all later uses together
};

class reporter {
public:
    explicit reporter(std::string file) : file_(std::move(file)) {}

    /// Writes the file anew. What cannot be written is said once.
    void write(const std::unordered_map<std::string, entry>& plans) {
        if (file_.empty() || plans.empty()) return;
        std::vector<const entry*> in_order(plans.size());
        for (const auto& [key, e] : plans) in_order.at(e.number) = &e;
        std::FILE* const out = std::fopen(file_.c_str(), "w");
        if (!out) {
            std::fprintf(stderr, "echo: ECHO_REPORT: '%s' cannot be written\n", file_.c_str());
            file_.clear();
            return;
        }
        if (file_.ends_with(".json"))
            json(out, in_order);
        else if (is_page())
            page(out, in_order);
        else
            text(out, in_order);
        std::fclose(out);
    }

    /// Of a graph that is new, for a page: it and what will run, before anything is changed. What cannot be written is
    /// said.
    void draw(const graph& g, const entry& e, bool carried_out) {
        if (!is_page()) return;
        const echo::snapshot s = echo::read(g);
        const echo::format::saved_step step(file_, e.number);
        const std::string failed = step.write(s, carried_out ? *e.made.steps : echo::baseline_schedule(s));
        if (!failed.empty()) {
            std::fprintf(stderr, "echo: ECHO_REPORT: '%s' cannot be written\n", failed.c_str());
            file_.clear();
            return;
        }
        drawn_.resize(e.number + 1);
        drawn_[e.number] = step.draw();
        if (drawn_[e.number].empty())
            std::fprintf(stderr, "echo: to draw graph %zu: %s\n", e.number + 1, step.line().c_str());
    }

private:
    static void json(std::FILE* out, const std::vector<const entry*>& entries) {
        std::fprintf(out, "{\n  \"format\": \"echo-ggml-report/1\",\n  \"graphs\": [");
        for (const entry* const e : entries) {
            const decision& d = e->made;
            std::fprintf(
                out,
                "%s\n    { \"nodes\": %d, \"compute_buffer_before\": %zu, \"compute_buffer\": %zu,\n"
                "      \"changed\": %s, \"nodes_after\": %d, \"recomputed_nodes\": %zu, "
                "\"judged\": %zu,\n"
                "      \"baseline_peak_bytes\": %llu, \"peak_bytes\": %llu, \"lower_bound_bytes\": %llu,\n"
                "      \"recompute_time_ratio\": %.6f, \"uses\": %zu, \"first_ms\": %.3f, \"later_ms\": "
                "%.3f,\n"
                "      \"unknown_ops\": [",
                e == entries.front() ? "" : ",", d.before.nodes, d.before.bytes, reached(*e).bytes,
                e->applied > 0 ? "true" : "false", reached(*e).nodes, d.recomputed, d.judged,
                number(d.baseline_peak), number(d.peak), number(d.lower_bound), d.overhead, e->uses,
                e->first_ms, e->later_ms);
            for (const auto& op : d.unknown_ops)
                std::fprintf(out, "%s%s", op == d.unknown_ops.front() ? "" : ", ", quoted(op).c_str());
            std::fprintf(out, "], \"note\": %s, \"problem\": %s }", quoted(d.note).c_str(),
                         quoted(d.problem).c_str());
        }
        std::fprintf(out, "\n  ]\n}\n");
    }

    static void text(std::FILE* out, const std::vector<const entry*>& entries) {
        for (const entry* const e : entries) {
            const decision& d = e->made;
            std::fprintf(out, "graph %zu: %d nodes, compute buffer %.2f -> %.2f MB", e->number + 1,
                         d.before.nodes, static_cast<double>(d.before.bytes) / 1e6,
                         static_cast<double>(reached(*e).bytes) / 1e6);
            std::fprintf(out, " (Echo's peak %.2f -> %.2f MB, bound %.2f MB)\n", mb(d.baseline_peak),
                         mb(d.peak), mb(d.lower_bound));
            std::fprintf(
                out,
                "  recomputed nodes %zu, %.2f %% of a step; planned in %.1f ms, ggml's allocator asked %zu "
                "times; used %zu times, later uses %.3f ms each\n",
                d.recomputed, 100 * d.overhead, e->first_ms, d.judged, e->uses,
                e->uses > 1 ? e->later_ms / static_cast<double>(e->uses - 1) : 0.0);
            for (const auto& op : d.unknown_ops)
                std::fprintf(out, "  unknown op (left alone): %s\n", op.c_str());
            for (const auto& line : {d.note, d.problem})
                if (!line.empty()) std::fprintf(out, "  note: %s\n", line.c_str());
        }
    }

    bool is_page() const { return file_.ends_with(".html"); }
    void page(std::FILE* out, const std::vector<const entry*>& entries) const {
        std::fputs("<!doctype html>\n<meta charset=\"utf-8\">\n<title>Echo in ggml</title>\n<pre>\n", out);
        char* said = nullptr;
        std::size_t size = 0;
        std::FILE* const memory = open_memstream(&said, &size);
        if (memory) {
            text(memory, entries);
            std::fputs("\nMemory over a step, tensor by tensor:\n", memory);
            for (const entry* const e : entries)
                std::fprintf(memory, "  %s\n", echo::format::saved_step(file_, e->number).line().c_str());
            std::fclose(memory);
            for (const char* c = said; *c; ++c)
                *c == '<'   ? std::fputs("&lt;", out)
                : *c == '&' ? std::fputs("&amp;", out)
                            : std::fputc(*c, out);
        }
        std::free(said);
        std::fputs("</pre>\n", out);
        for (std::size_t i = 0; i < drawn_.size(); ++i)
            if (!drawn_[i].empty())
                std::fprintf(out, "<p><a href=\"%s\">graph %zu, drawn</a>\n", link(drawn_[i]).c_str(), i + 1);
    }

    /// From the page to a page below its own folder.
    static std::string link(const std::string& page) {
        const std::size_t folder = page.rfind('/', page.rfind('/') - 1);
        std::string all;
        for (const char c : page.substr(folder + 1)) // as a URL has it
            all += c == ' '   ? "%20"
                   : c == '%' ? "%25"
                   : c == '#' ? "%23"
                   : c == '"' ? "%22"
                              : std::string(1, c);
        return all;
    }

    /// What became of the graph itself: a plan that found no room was not carried out.
    static const cost& reached(const entry& e) { return e.applied > 0 ? e.made.after : e.made.before; }
    static double mb(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }
    static unsigned long long number(std::uint64_t bytes) { return bytes; }
    static std::string quoted(const std::string& text) {
        std::string all = "\"";
        for (const char c : text) {
            if (c == '"' || c == '\\') all += '\\';
            all += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
        return all + '"';
    }

    std::string file_;
    std::vector<std::string> drawn_{}; ///< by graph: its page; empty where it was not drawn
};

} // namespace echo_ggml
