// SPDX-License-Identifier: BSL-1.0
/// @file
/// The report that ECHO_REPORT asks for: one entry for each graph that was seen, as text, as JSON, or as a page. The
/// page of a name that ends in .html holds the text; each graph and its plan stand beside it as files that `echo-plan
/// --report` draws, and the line that does so is said and stands in the page.
#pragma once

#include "choose.hpp"
#include "format/write_graph.hpp"
#include "format/write_plan.hpp"

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
        const echo::schedule steps = carried_out ? *e.made.steps : echo::baseline_schedule(s);
        const std::string name = stem(e);
        using echo::format::byte_sink;
        const bool good = save(name + ".graph.json",
                               [&](const byte_sink& to) { echo::format::write_graph(to, s, name); }) &&
                          save(name + ".plan.json", [&](const byte_sink& to) {
                              echo::format::write_plan(to, s,
                                                       {.graph = name,
                                                        .strategy = "budget",
                                                        .steps = steps,
                                                        .stash = echo::format::stash_of(s, steps)});
                          });
        if (!good) file_.clear(); // which was said, once
        if (good) std::fprintf(stderr, "echo: to draw graph %zu: %s\n", e.number + 1, command(e).c_str());
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
    /// Files beside the page begin with this.
    std::string stem(const entry& e) const {
        const std::string name = file_.substr(0, file_.size() - std::string_view(".html").size());
        return e.number == 0 ? name : name + '.' + std::to_string(e.number + 1);
    }
    /// The line that makes DIR/index.html.
    std::string command(const entry& e) const {
        const auto in_quotes = [](const std::string& name) {
            std::string all = "'";
            for (const char c : name) all += c == '\'' ? std::string("'\\''") : std::string(1, c);
            return all + "'";
        };
        return "echo-plan " + in_quotes(stem(e) + ".graph.json") + " --plan " +
               in_quotes(stem(e) + ".plan.json") + " --report " + in_quotes(stem(e));
    }

    template <class Write>
    static bool save(const std::string& file, const Write& write) {
        std::FILE* const out = std::fopen(file.c_str(), "w");
        bool good = out != nullptr;
        if (out)
            write([&](std::string_view bytes) {
                good &= std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
            });
        if (out) good &= std::fclose(out) == 0;
        if (!good) std::fprintf(stderr, "echo: ECHO_REPORT: '%s' cannot be written\n", file.c_str());
        return good;
    }

    void page(std::FILE* out, const std::vector<const entry*>& entries) const {
        std::fputs("<!doctype html>\n<meta charset=\"utf-8\">\n<title>Echo in ggml</title>\n<pre>\n", out);
        char* said = nullptr;
        std::size_t size = 0;
        std::FILE* const memory = open_memstream(&said, &size);
        if (memory) {
            text(memory, entries);
            std::fputs("\nMemory over a step, tensor by tensor:\n", memory);
            for (const entry* const e : entries) std::fprintf(memory, "  %s\n", command(*e).c_str());
            std::fclose(memory);
            for (const char* c = said; *c; ++c)
                *c == '<'   ? std::fputs("&lt;", out)
                : *c == '&' ? std::fputs("&amp;", out)
                            : std::fputc(*c, out);
        }
        std::free(said);
        std::fputs("</pre>\n", out);
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
};

} // namespace echo_ggml
