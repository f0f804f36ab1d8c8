// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the CUDA back end would issue for a step of each model: the plan's steps in their order, at the offsets of the
/// memory plan, with the bytes that tensors have; and what a step reads is what was written for it.
#include "engine/cuda/recording.hpp"
#include "engine/session.hpp"
#include "train/models.hpp"
#include "train/room.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace engine;
using cuda::memory_range;
using cuda::recorded_step;

namespace {

/// One step of a model, planned and written down.
struct written_step {
    graph g;
    cuda::recording_backend on;
    planned p;

    written_step(const std::string& model, const echo::plan_options& how) {
        const auto built = train::build(g, {.name = model, .preset = "tiny"});
        engine::train(g, built.model.loss, built.model.optimizer);
        complete(g, on);
        p = make_plans(g, {.plan = how, .memory = {.align = 256}});
    }

    /// Errors: what the recording refuses.
    std::vector<recorded_step> issue(const echo::memory_plan& memory) {
        on.clear();
        residents outside(1, on.memory());
        executor<cuda::recording_backend> run(g, p.graph, p.plan.steps(), memory, outside, on,
                                              {.moves = &on.moves()});
        arena = on.pieces().size();
        for (std::size_t i = 0; i < on.pieces().size(); ++i)
            if (on.pieces()[i].what == "the arena") arena = i;
        run.run(1, 1);
        return {on.steps().begin(), on.steps().end()};
    }
    std::size_t arena = 0; ///< the piece
};

/// Sees in which order bytes of the arena are written and read. Counts what must not be.
class bytes_in_use {
public:
    explicit bytes_in_use(std::uint64_t arena) : owner_((arena + 3) / 4, nobody) {}

    static constexpr std::size_t nobody = ~std::size_t{0}, scratch = nobody - 1;

    void write(const memory_range& r, std::size_t by) {
        each(r, [&](std::size_t& of) { of = by; });
    }
    bool holds(const memory_range& r, std::size_t of) {
        bool all = true;
        each(r, [&](const std::size_t& is) { all = all && is == of; });
        return all;
    }

private:
    template <class F>
    void each(const memory_range& r, F&& f) {
        for (std::uint64_t at = r.offset / 4; at < (r.offset + r.bytes + 3) / 4; ++at) f(owner_.at(at));
    }
    std::vector<std::size_t> owner_;
};

/// The fused steps that a step reads, and those that they read.
std::set<std::size_t> inside_of(const echo::schedule& steps, echo::step_id t) {
    std::set<std::size_t> found;
    for (const auto c : steps.inputs(t))
        if (steps[c.step].fused) {
            found.insert(c.step.index());
            found.merge(inside_of(steps, c.step));
        }
    return found;
}

bool overlap(const memory_range& a, const memory_range& b) {
    return a.piece == b.piece && a.bytes && b.bytes && a.offset < b.offset + b.bytes &&
           b.offset < a.offset + a.bytes;
}

/// What is wrong with a step that was written down, in words; none where nothing is.
std::vector<std::string> faults(written_step& w, const echo::memory_plan& memory) {
    std::vector<std::string> found;
    const auto issued = w.issue(memory);
    const echo::snapshot& s = w.p.graph;
    const echo::schedule& steps = w.p.plan.steps();
    std::vector<node*> nodes;
    for (node* n : w.g.nodes()) nodes.push_back(n);

    bytes_in_use use(memory.bytes());
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> made; // by copy: who wrote what it lies on
    std::map<const node*, std::vector<std::string>> first;           // kernels of a node's first run
    std::size_t next = 0, tokens = 0;
    for (const auto t : steps.steps()) {
        const auto& record = steps[t];
        node* const n = nodes[record.node.index()];
        const auto copies = steps.inputs(t);
        const std::string name = "step " + std::to_string(t.index()) + " (" + n->name + "): ";
        const auto expect = [&](bool holds, const std::string& what) {
            if (!holds) found.push_back(name + what);
        };
        if (record.kind == echo::step_kind::offload || record.kind == echo::step_kind::reload) {
            made[{t.index(), 0}] = tokens++;
            if (const auto at = memory.offset(t))
                use.write({w.arena, *at, record.bytes}, made.at({t.index(), 0}));
            continue;
        }
        const bool encoding = record.kind == echo::step_kind::encode;
        const bool view = s[record.node].kind == echo::op_kind::view;
        if (!encoding && (view || n->phase == echo::phase::input)) {
            for (std::size_t k = 0; k < n->outputs.size(); ++k) {
                const auto& v = s[s.output(record.node, k)];
                made[{t.index(), k}] =
                    v.view_of == echo::no_input
                        ? tokens++
                        : made.at({copies[v.view_of].step.index(), copies[v.view_of].output});
            }
            continue;
        }
        if (record.fused) continue; // inside those that read it
        if (next == issued.size()) {
            expect(false, "was not issued");
            break;
        }
        const recorded_step& is = issued[next++];
        expect(is.step == t.index() && is.kind == record.kind && is.at == n,
               "is not the next one that was issued");
        expect(is.op == (encoding ? std::string(ops::encode::name) : std::string(name_of(n->op))),
               "is another op");

        // Where it reads: what is fused into it reads first, in the order of the plan.
        const auto inside = encoding ? std::set<std::size_t>{} : inside_of(steps, t);
        std::vector<echo::copy_id> reads;
        for (const std::size_t k : inside)
            for (const auto c : steps.inputs(echo::step_id(k)))
                if (!steps[c.step].fused) reads.push_back(c);
        for (const auto c : copies)
            if (encoding || !steps[c.step].fused) reads.push_back(c);
        expect(is.in.size() == (encoding ? 1 : reads.size()), "reads another number of tensors");
        for (std::size_t i = 0; i < is.in.size(); ++i) {
            const auto c = reads[i];
            const auto& v = s[echo::held_value(s, steps, c)];
            const auto at = memory.offset(c);
            const bool packed = echo::is_encoding(steps, c);
            const std::uint64_t bytes = packed ? echo::encoded_bytes(v.elements) : v.bytes;
            expect(is.in[i].bytes == bytes && is.in[i].packed == packed, "reads other bytes");
            expect((is.in[i].piece == w.arena) == at.has_value(), "reads from the wrong memory");
            if (!at) continue;
            expect(is.in[i].offset == *at, "reads at another offset");
            expect(is.in[i].offset + bytes <= memory.bytes(), "reads beyond the arena");
            expect(use.holds(is.in[i], made.at({c.step.index(), c.output})),
                   "reads what was written over, input " + std::to_string(i));
        }

        // Where it works: on nothing that it reads or writes.
        const std::size_t outputs = encoding ? 1 : n->outputs.size();
        if (!encoding && n->scratch) {
            const auto at = memory.offset(t, static_cast<std::uint32_t>(outputs));
            expect(is.scratch.piece == w.arena && at && is.scratch.offset == *at &&
                       is.scratch.bytes == n->scratch,
                   "has other scratch memory");
            expect(is.scratch.offset + is.scratch.bytes <= memory.bytes(), "works beyond the arena");
            expect(n->scratch == w.on.scratch(n->op, w.g.inputs_of(*n), n->outputs),
                   "wants other scratch memory");
            for (const auto& in : is.in) expect(!overlap(is.scratch, in), "works where it reads");
            for (const auto& out : is.out) expect(!overlap(is.scratch, out), "works where it writes");
            use.write(is.scratch, bytes_in_use::scratch);
        } else {
            expect(is.scratch.bytes == 0, "has scratch memory that it did not ask for");
        }

        // Where it writes: over what it reads only where its facts say so.
        expect(is.out.size() == outputs, "writes another number of tensors");
        for (std::size_t k = 0; k < outputs; ++k) {
            const auto& v = s[encoding ? echo::held_value(s, steps, copies[0]) : s.output(record.node, k)];
            const auto at = memory.offset(t, static_cast<std::uint32_t>(k));
            const std::uint64_t bytes = encoding ? echo::encoded_bytes(v.elements) : v.bytes;
            expect(is.out[k].bytes == bytes, "writes other bytes");
            expect((is.out[k].piece == w.arena) == at.has_value(), "writes to the wrong memory");
            for (std::size_t i = 0; i < is.in.size(); ++i)
                if (overlap(is.out[k], is.in[i]))
                    expect(!encoding && v.inplace != echo::no_input && reads[i] == copies[v.inplace] &&
                               is.out[k].offset == is.in[i].offset && is.out[k].bytes == is.in[i].bytes,
                           "writes over input " + std::to_string(i));
            for (std::size_t other = 0; other < k; ++other)
                expect(!overlap(is.out[k], is.out[other]), "writes two outputs to one place");
            made[{t.index(), k}] = tokens++;
            if (!at) continue;
            expect(is.out[k].offset == *at, "writes at another offset");
            expect(is.out[k].offset + bytes <= memory.bytes(), "writes beyond the arena");
            use.write(is.out[k], made.at({t.index(), k}));
        }

        // By what: a library has the products and convolutions, and the rest are kernels.
        expect(!is.calls.empty(), "calls nothing");
        static const std::set<std::string> by_library{"fully_connected",
                                                      "fully_connected_data_gradient",
                                                      "fully_connected_weight_gradient",
                                                      "batch_dot",
                                                      "convolution",
                                                      "convolution_data_gradient",
                                                      "convolution_weight_gradient"};
        std::vector<std::string> calls;
        for (const auto& c : is.calls) {
            expect(c.library == by_library.contains(is.op), "is run by the wrong hands: " + c.what);
            expect(c.library || c.tiles > 0, "starts an empty kernel");
            calls.push_back(c.what + " " + std::to_string(c.tiles));
        }
        if (!inside.empty()) {
            std::string kernel = "fused";
            for (const std::size_t k : inside)
                kernel += "." + std::string(name_of(nodes[steps[echo::step_id(k)].node.index()]->op));
            expect(is.calls.size() == 1 && is.calls[0].what == kernel + "." + is.op, "is another kernel");
            continue;
        }
        if (!encoding && !first.emplace(n, calls).second)
            expect(first.at(n) == calls, "is not recomputed as it was computed");
    }
    if (next != issued.size()) found.emplace_back("more was issued than the plan has");
    return found;
}

std::string text(const std::vector<std::string>& of) {
    std::string all;
    for (std::size_t i = 0; i < of.size() && i < 10; ++i) all += of[i] + '\n';
    return all;
}

} // namespace

TEST_CASE("a step is issued as the plan has it, at the offsets of the memory plan") {
    const std::string model = GENERATE("nmt", "ds2", "transformer", "resnet");
    INFO(model);
    for (const auto how : {echo::strategy::baseline, echo::strategy::min_cut}) {
        INFO(echo::name_of(how));
        written_step w(model, {.how = how});
        const auto found = faults(w, w.p.memory);
        INFO(text(found));
        CHECK(found.empty());
        std::size_t recomputed = 0, scratch = 0, library = 0;
        for (const auto& each : w.on.steps()) {
            recomputed += each.kind == echo::step_kind::recompute;
            scratch += each.scratch.bytes > 0;
            library += each.calls[0].library;
        }
        CHECK((recomputed > 0) == (how != echo::strategy::baseline));
        CHECK(scratch > 0);
        CHECK(library > 10);
    }
}

TEST_CASE("what is fused is issued inside what reads it, as one kernel") {
    const std::string model = GENERATE("nmt", "ds2", "transformer", "resnet");
    INFO(model);
    written_step w(model, {.how = echo::strategy::min_cut, .host = {.fuse = true}});
    const auto found = faults(w, w.p.memory);
    INFO(text(found));
    CHECK(found.empty());
    std::size_t kernels = 0, ops = 0;
    for (const auto& each : w.on.steps())
        for (const auto& c : each.calls)
            if (c.what.starts_with("fused.")) {
                ++kernels;
                ops += static_cast<std::size_t>(std::count(c.what.begin(), c.what.end(), '.')) - 1;
            }
    CHECK(kernels > 0);
    CHECK(ops >= w.p.plan.report().fused_nodes); // one may run inside several
}

TEST_CASE("copies to the host and back are issued at the offsets of the memory plan") {
    const std::string model = GENERATE("nmt", "transformer", "resnet");
    INFO(model);
    written_step w(model, {.how = echo::strategy::budget,
                           .host = {.offload = true},
                           .link = {.out_bytes_per_us = 25000, .in_bytes_per_us = 25000}});
    const auto found = faults(w, w.p.memory);
    INFO(text(found));
    CHECK(found.empty());
    const echo::schedule& steps = w.p.plan.steps();
    std::vector<std::size_t> issued_before(steps.size() + 1, 0); // steps of the plan that call something
    std::size_t next = 0;
    for (std::size_t t = 0; t < steps.size(); ++t) {
        if (next < w.on.steps().size() && w.on.steps()[next].step == t) ++next;
        issued_before[t + 1] = next;
    }
    std::vector<cuda::recorded_copy> out, in;
    for (const auto& c : w.on.copies()) (c.leaves ? out : in).push_back(c);
    std::size_t outs = 0, ins = 0;
    std::map<std::size_t, std::uint64_t> place; // by offload step
    for (const auto t : steps.steps()) {
        const bool leaves = steps[t].kind == echo::step_kind::offload;
        if (!leaves && steps[t].kind != echo::step_kind::reload) continue;
        const auto source = steps.inputs(t)[0];
        const auto& is = leaves ? out.at(outs++) : in.at(ins++);
        CHECK(is.of.piece == w.arena);
        CHECK(is.of.offset == w.p.memory.offset(leaves ? source : echo::copy_id{t, 0}));
        CHECK(is.of.bytes == steps[t].bytes);
        CHECK(is.behind <= issued_before[t.index()]);
        CHECK(is.behind >= issued_before[leaves ? source.step.index() + 1 : t.index()]);
        if (leaves)
            place[t.index()] = is.place;
        else
            CHECK(is.place == place.at(source.step.index()));
    }
    CHECK(outs > 3);
    CHECK(out.size() == outs);
    CHECK(in.size() == ins);
}

TEST_CASE("a memory plan in which two live tensors meet is seen in what is issued") {
    written_step w("nmt", {.how = echo::strategy::min_cut});
    const auto good = w.p.memory.parts();
    std::size_t spoilt = 0, seen = 0;
    for (std::size_t copy = 0; copy < good.offsets.size(); copy += 97) {
        if (good.offsets[copy] == echo::memory_plan_parts::no_offset || good.offsets[copy] < 256) continue;
        auto parts = good;
        parts.offsets[copy] -= 256; // what is below is most often in use
        ++spoilt;
        seen += !faults(w, echo::memory_plan(parts)).empty();
    }
    CHECK(spoilt > 5);
    CHECK(2 * seen > spoilt);
    auto parts = good;
    for (auto& offset : parts.offsets)
        if (offset != echo::memory_plan_parts::no_offset) offset = 0;
    CHECK(faults(w, echo::memory_plan(parts)).size() > 100);
}

TEST_CASE("a step is one line of text") {
    written_step w("nmt", {.how = echo::strategy::min_cut});
    const auto steps = w.issue(w.p.memory);
    std::map<std::string, std::string> lines;
    for (const auto& s : steps) lines.emplace(s.op, to_string(s, w.on.pieces()));
    const auto has = [&](const char* op, const std::string& words) {
        INFO(lines[op]);
        CHECK(lines[op].find(words) != std::string::npos);
    };
    has("fully_connected", " run fully_connected ");
    has("fully_connected", ": cuBLAS ");
    has("fully_connected", " b^T +bias | in ");
    has("fully_connected", ".weight]+");
    has("tanh_op", ": kernel ");
    has("adam", " | scratch -");
}

TEST_CASE("a device that is too small is refused with a budget that fits") {
    written_step w("transformer", {.how = echo::strategy::baseline});
    const auto others = w.p.plan.report().resident_bytes + train::besides_on_device(w.p);
    const auto all = train::needed_bytes(w.p) + train::besides_on_device(w.p);
    train::expect_room(w.p, all);
    const auto refusal = [&](std::uint64_t free) -> std::string {
        try {
            train::expect_room(w.p, free);
        } catch (const echo::error& e) {
            return e.what();
        }
        return "accepted";
    };
    for (const double part : {0.99, 0.8, 0.7}) {
        const auto free = others + static_cast<std::uint64_t>(part * static_cast<double>(w.p.memory.bytes()));
        const auto budget = train::budget_for(w.p, free);
        const std::string line = refusal(free);
        INFO(line);
        CHECK(line.find(std::to_string(all) + " bytes are needed on the device") != std::string::npos);
        CHECK(line.find(std::to_string(free) + " are free") != std::string::npos);
        CHECK(line.find("--strategy budget --budget " + std::to_string(budget)) != std::string::npos);
        const planned fits = make_plans(
            w.g, {.plan = {.how = echo::strategy::budget, .budget = budget}, .memory = {.align = 256}});
        CHECK(fits.plan.met());
        train::expect_room(fits, free);
    }
    CHECK(refusal(others).find("no budget fits") != std::string::npos);
}
