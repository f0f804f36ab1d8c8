// SPDX-License-Identifier: BSL-1.0
/// @file
/// `executor`: runs the steps of a plan on one arena, at the offsets of its memory plan, by any backend (call.hpp).
#pragma once

#include "engine/chains.hpp"
#include "engine/graph_traits.hpp"
#include "engine/moves.hpp"
#include "engine/residents.hpp"

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/schedule/read_walk.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

namespace engine {

/// What the steps of a schedule are, counted as they were run.
struct step_counts {
    std::size_t run = 0, recomputed = 0;     ///< first runs, later ones
    std::size_t seeded = 0;                  ///< recomputed with the same random numbers
    std::size_t fused = 0;                   ///< of the recomputed: inside what reads them
    std::size_t encoded = 0;                 ///< values packed to one bit per element
    std::size_t late = 0;                    ///< forward nodes first run in the backward pass
    std::size_t inplace = 0;                 ///< outputs written over an input in the arena
    std::size_t offloaded = 0, reloaded = 0; ///< copies that left for the host's store, and that came back
    friend bool operator==(const step_counts&, const step_counts&) = default;
};

/// Time and bytes of one layer, of all runs so far.
struct layer_profile {
    double forward_us = 0, backward_us = 0, recompute_us = 0, update_us = 0;
    std::uint64_t bytes = 0; ///< written, in all runs
};

struct executor_options {
    bool check = false;   ///< what a step reads has the very bits that were written; O(bytes read)
    bool profile = false; ///< time each step
    /// On the host, run chains of element-wise steps together (chains.hpp); not while checking or profiling.
    bool chain = true;
    /// Have the backend record a step, where it can; not while checking or profiling, nor a plan that offloads: what
    /// travels may do so on both sides of the loss, where one recording ends.
    bool record = true;
    mover* moves = nullptr; ///< carries what a plan offloads; kept by reference
};

template <class Backend>
class executor {
public:
    /// All are kept by reference but the plans, which are not needed later. `s` is the graph as it is now.
    executor(graph& g, const echo::snapshot& s, const echo::schedule& steps, const echo::memory_plan& memory,
             residents& outside, Backend& backend, executor_options options = {})
        : backend_(backend), memory_(memory_of(backend)), outside_(outside), options_(options),
          arena_(memory_, memory.bytes(), "the arena") {
        for (node* n : g.nodes()) nodes_.push_back(n);
        for (const node* n : nodes_) seeds_.resize(std::max(seeds_.size(), std::size_t{n->seed}));
        numbers_ = memory_piece(memory_, sizeof(step_numbers) + seeds_.size() * sizeof(std::uint64_t),
                                "the step's numbers");
        prepare(s, steps, memory, g);
        prepare_moves(s, steps);
        for (std::size_t t = 0; t < steps_.size(); ++t) require_fusable(t);
        if constexpr (runs_parts)
            if (options.chain && memory_.on_host() && !options.check && !options.profile) find_chains();
    }

    /// One training step. Errors: the loss (the first result) is not finite: the error names the first node whose
    /// output is not, and nothing has been updated; with `check`, a value that was overwritten while it was live; those
    /// of the mover, behind which parameters may have been updated in part.
    ///
    /// A backend that records is issued the first step as any other, so that what it makes once is made. The second is
    /// recorded, in two pieces, as the loss is looked at in between.
    float run(std::uint64_t seed, std::uint64_t iteration) {
        if (moves_.at.empty()) return run_all(seed, iteration);
        try {
            options_.moves->begin_step();
            return run_all(seed, iteration);
        } catch (...) { // the arena may end with this executor
            options_.moves->give_up();
            throw;
        }
    }

    /// Of the last run.
    float loss() const noexcept { return loss_; }

    std::uint64_t arena_bytes() const noexcept { return arena_.size(); }
    /// Whether the steps are a recording's by now.
    bool recorded() const noexcept { return !recordings_.empty(); }
    /// Steps that run in chains of two or more.
    std::size_t chained() const noexcept { return chained_; }
    /// The largest end of a tensor that a step has touched in the arena.
    std::uint64_t high_water() const noexcept { return high_water_; }
    /// Of the last run.
    const step_counts& counts() const noexcept { return counts_; }
    const std::map<std::string, layer_profile>& profile() const noexcept { return layers_; }
    /// What `latest` has, on the host.
    std::vector<float> read(const value& v) const {
        std::vector<float> made(elements(v.producer->outputs[v.output]));
        memory_.read(made.data(), latest(v), made.size() * sizeof(float));
        return made;
    }
    /// Where the latest copy of an output lies; nothing says it is still there but for results and residents.
    const std::byte* latest(const value& v) const {
        const auto at = latest_.find({v.producer, v.output});
        return at == latest_.end() ? nullptr : at->second;
    }
    /// Writes the mean measured time of each node's first run into the graph, where planning reads it.
    void store_times() const {
        if (runs_ == 0) return;
        for (const step& each : steps_)
            if (each.kind == echo::step_kind::run && each.at->phase != echo::phase::input)
                each.at->time_us = each.us / static_cast<double>(runs_);
    }

private:
    static constexpr bool runs_parts = requires(Backend& b, const op& o, std::span<const op_call> chain) {
        b.in_parts(o);
        b.run(chain);
    };

    struct step {
        node* at = nullptr;
        const op* what = nullptr;
        echo::step_kind kind{};
        bool runs = false;   ///< views and inputs do not
        bool seeded = false; ///< a recomputation that draws random numbers
        bool late = false;
        std::size_t inplace = 0;
        std::vector<input_view> in{};
        std::vector<output_view> out{};
        std::span<std::byte> scratch{};
        std::vector<std::size_t> read{}, made{}; ///< copies, for the check
        bool fused = false;                      ///< it runs inside those that read it
        std::vector<std::size_t> inside{};       ///< fused steps that run inside it, in execution order
        std::size_t chain = 1;                   ///< steps of the chain that starts here, views among them
        double us = 0;
    };

    float run_all(std::uint64_t seed, std::uint64_t iteration) {
        outside_.before_step();
        now_ = {.seed = seed, .iteration = iteration};
        for (std::size_t i = 0; i < seeds_.size(); ++i) seeds_[i] = seed_of(now_, i + 1);
        memory_.write(numbers_.data(), &now_, sizeof now_);
        if (!seeds_.empty())
            memory_.write(numbers_.data() + sizeof now_, seeds_.data(),
                          seeds_.size() * sizeof(std::uint64_t));
        if (runs_ > 0 && recordings_.empty() && records()) record();
        if (recordings_.empty()) counts_ = {};
        run_piece(0, 0, loss_step_ + 1);
        memory_.read(&loss_, loss_at_, sizeof loss_); // a plan may overwrite it, and make it again later
        if (!std::isfinite(loss_)) refuse_loss();
        run_piece(1, loss_step_ + 1, steps_.size());
        ++runs_;
        return loss_;
    }

    void prepare(const echo::snapshot& s, const echo::schedule& steps, const echo::memory_plan& memory,
                 const graph& g) {
        std::vector<std::size_t>& first = first_copy_;
        for (const auto t : steps.steps()) first.push_back(first.back() + echo::copy_count(s, steps[t]));
        places_.resize(first.back());
        hashes_.resize(first.back());
        slots_.assign(first.back(), no_slot);
        for (const node* n : nodes_) graph_tensors_.push_back(g.inputs_of(*n));
        bool backward = false;
        echo::read_walk walk;
        for (const auto t : steps.steps()) {
            const auto& record = steps[t];
            node* n = nodes_[record.node.index()];
            const auto copies = steps.inputs(t);
            step made{.at = n, .what = &n->op, .kind = record.kind, .fused = record.fused};
            if (record.kind == echo::step_kind::offload || record.kind == echo::step_kind::reload) {
                made.read.push_back(copy_number(copies[0]));
                made.made.push_back(copy_number({t, 0}));
                if (const auto at = memory.offset(t)) places_[made.made[0]] = arena_.data() + *at;
                steps_.push_back(std::move(made));
                continue;
            }
            const bool encoding = record.kind == echo::step_kind::encode;
            for (const auto c : copies) made.read.push_back(copy_number(c));
            const std::size_t count = first[t.index() + 1] - first[t.index()];
            for (std::size_t k = 0; k < count; ++k) {
                const std::size_t copy = first[t.index()] + k;
                made.made.push_back(copy);
                if (record.fused) {
                    slots_[copy] = static_cast<std::int64_t>(copy);
                    continue;
                }
                if (const auto at = memory.offset(t, static_cast<std::uint32_t>(k)))
                    places_[copy] = arena_.data() + *at;
                else
                    places_[copy] = outside(s, s.output(record.node, k), made.read, n, k);
                if (encoding) continue;
                latest_[{n, k}] = places_[copy];
                const auto& v = s[s.output(record.node, k)];
                if (v.view_of == echo::no_input && memory.offset(t, static_cast<std::uint32_t>(k)))
                    for (const std::size_t in : made.read)
                        if (places_[in] == places_[copy] && v.bytes) {
                            ++made.inplace;
                            break;
                        }
            }
            if (encoding) {
                made.what = &encode_;
                made.runs = true;
                encoded_.push_back({});
                const auto k = echo::first_made(steps, copies[0]).output;
                made.in.push_back({places_[made.read[0]], &n->outputs[k], false});
                made.out.push_back(
                    {places_[made.made[0]], keep_tensor(ops::encode{}.infer({&n->outputs[k], 1})[0])});
            } else {
                const tensors& in = graph_tensors_[record.node.index()];
                for (std::size_t i = 0; i < copies.size(); ++i) {
                    const node* producer = n->inputs[i].producer;
                    const bool stored = std::holds_alternative<ops::encode>(producer->op);
                    const bool packed = echo::is_encoding(steps, copies[i]) || stored;
                    const echo::tensor* what =
                        stored ? &(*producer->inputs[0].producer).outputs[producer->inputs[0].output]
                               : &in[i];
                    made.in.push_back({places_[made.read[i]], what, packed, slots_[made.read[i]]});
                }
                for (std::size_t k = 0; k < n->outputs.size(); ++k)
                    made.out.push_back({places_[made.made[k]], &n->outputs[k], slots_[made.made[k]]});
                if (n->scratch) made.scratch = {places_[made.made.back()], n->scratch};
                const auto facts = s[record.node];
                made.runs =
                    facts.kind != echo::op_kind::view && n->phase != echo::phase::input && !made.fused;
                if (made.runs)
                    for (const auto inner : walk.inside(steps, t)) made.inside.push_back(inner.index());
                std::sort(made.inside.begin(), made.inside.end());
                made.seeded =
                    record.kind == echo::step_kind::recompute && facts.rerun == echo::rerun_kind::seeded;
                backward |=
                    (n->phase == echo::phase::backward || n->phase == echo::phase::update) && made.runs;
                made.late =
                    backward && n->phase == echo::phase::forward && record.kind == echo::step_kind::run;
            }
            if (made.runs)
                for (const auto& out : made.out)
                    if (!in_arena(out.data)) outside_.note_written(out.data);
            steps_.push_back(std::move(made));
        }
        const value loss = g.results().at(0);
        for (std::size_t t = 0; t < steps_.size(); ++t)
            if (steps_[t].at == loss.producer && steps_[t].kind == echo::step_kind::run) loss_step_ = t;
        loss_at_ = steps_[loss_step_].out[loss.output].data;
    }

    std::size_t copy_number(echo::copy_id c) const { return first_copy_[c.step.index()] + c.output; }

    /// Errors: the plan offloads, and there is no mover; those of the mover.
    void prepare_moves(const echo::snapshot& s, const echo::schedule& steps) {
        moves_ = find_moves(
            steps, [&](echo::copy_id c) { return places_[copy_number(c)]; },
            [&](echo::node_id n) { return s.name(n); });
        if (moves_.at.empty()) return;
        if (!options_.moves)
            throw echo::error({}, "offload", "the plan offloads values, but the executor has no mover",
                              "name one in executor_options::moves, or plan without host_abilities::offload");
        options_.moves->prepare(moves_.all);
    }

    /// Storage of a copy outside the arena: an input's that it lies on, or its own.
    std::byte* outside(const echo::snapshot& s, echo::value_id v, const std::vector<std::size_t>& read,
                       node* n, std::size_t k) {
        if (s[v].view_of != echo::no_input) return places_[read[s[v].view_of]];
        if (s[v].inplace != echo::no_input && !in_arena(places_[read[s[v].inplace]]))
            return places_[read[s[v].inplace]];
        return outside_({n, k});
    }
    bool in_arena(const void* at) const { return at >= arena_.data() && at < arena_.data() + arena_.size(); }
    const echo::tensor* keep_tensor(echo::tensor t) {
        encoded_.back() = std::make_unique<echo::tensor>(std::move(t));
        return encoded_.back().get();
    }

    void touch(const void* data, std::uint64_t bytes) {
        if (bytes && in_arena(data))
            high_water_ = std::max<std::uint64_t>(
                high_water_,
                static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - arena_.data()) + bytes);
    }

    call call_of(const step& each) const {
        call made{.inputs = each.in,
                  .outputs = each.out,
                  .scratch = each.scratch,
                  .iteration = now_.iteration,
                  .numbers = reinterpret_cast<const step_numbers*>(numbers_.data())};
        if (const std::uint64_t seed = each.at->seed) { // counted from 1
            made.seed = seeds_[seed - 1];
            made.seed_at = reinterpret_cast<const std::uint64_t*>(made.numbers + 1) + (seed - 1);
        }
        return made;
    }

    bool records() {
        if constexpr (requires { backend_.records(); })
            return options_.record && moves_.at.empty() && !options_.check && !options_.profile &&
                   backend_.records();
        else
            return false;
    }
    /// A recording in the making. Where issuing throws, it is ended all the same, as nothing else can be done in a
    /// stream that is captured; what there is of it is never replayed.
    class recording_scope {
    public:
        explicit recording_scope(Backend& backend) : backend_(&backend) { backend_->begin_recording(); }
        recording_scope(const recording_scope&) = delete;
        recording_scope& operator=(const recording_scope&) = delete;
        ~recording_scope() {
            if (!backend_) return;
            try {
                static_cast<void>(backend_->end_recording());
            } catch (...) { // the first error is on its way already
            }
        }
        std::size_t end() { return std::exchange(backend_, nullptr)->end_recording(); }

    private:
        Backend* backend_;
    };

    void record() {
        if constexpr (requires { backend_.records(); }) {
            counts_ = {};
            std::vector<std::size_t> made;
            for (const std::size_t end : {loss_step_ + 1, steps_.size()}) {
                recording_scope recording(backend_);
                issue(made.empty() ? 0 : loss_step_ + 1, end);
                made.push_back(recording.end());
            }
            recordings_ = std::move(made);
        }
    }
    /// Before the loss, or behind it.
    void run_piece(std::size_t piece, std::size_t first, std::size_t last) {
        if constexpr (requires { backend_.records(); })
            if (!recordings_.empty()) return backend_.replay(recordings_[piece]);
        issue(first, last);
    }
    void issue(std::size_t first, std::size_t last) {
        for (std::size_t t = first; t < last; ++t)
            if (steps_[t].chain > 1)
                t = run_chain(t);
            else
                run_step(t);
    }

    /// Adds a step and what runs inside it, and says whether all of it can be in the chain; if not, the chain is
    /// spoilt.
    bool add_to(chain_builder& chain, std::size_t t) {
        const auto add = [&](std::size_t k) {
            return backend_.in_parts(*steps_[k].what) && chain.add(call_of(steps_[k]));
        };
        return std::all_of(steps_[t].inside.begin(), steps_[t].inside.end(), add) && add(t);
    }

    /// Errors: something is to run inside the step that cannot.
    void require_fusable(std::size_t t) {
        if (steps_[t].inside.empty()) return;
        bool fits = runs_parts;
        if constexpr (runs_parts) {
            chain_builder chain;
            fits = add_to(chain, t);
        }
        if (!fits)
            throw echo::error(steps_[t].at->name, "fused", "the backend cannot recompute others inside it",
                              "plan without host_abilities::fuse, or say so in graph_traits::may_fuse");
    }

    /// A chain goes on over views, which do nothing. It ends before the loss is looked at, and before an offload or a
    /// reload step, behind which others use the memory.
    void find_chains() {
        for (std::size_t t = 0; t < steps_.size(); ++t) {
            if (!steps_[t].runs) continue;
            chain_builder chain;
            std::size_t end = t, count = 0;
            for (std::size_t k = t; k < steps_.size() && k != loss_step_; ++k) {
                const step& each = steps_[k];
                if (moves_copies(each)) break;
                if (!each.runs) continue;
                if (!add_to(chain, k)) break;
                end = k + 1;
                ++count;
            }
            if (count < 2) continue;
            steps_[t].chain = end - t;
            chained_ += count;
            t = end - 1;
        }
    }

    /// Returns the last step of the chain that starts at t.
    std::size_t run_chain(std::size_t t) {
        const std::size_t end = t + steps_[t].chain;
        before_steps(t, end);
        run_together(t, end);
        for (std::size_t k = t; k < end; ++k) note_run(steps_[k]);
        behind_steps(t, end);
        return end - 1;
    }

    static bool moves_copies(const step& each) {
        return each.kind == echo::step_kind::offload || each.kind == echo::step_kind::reload;
    }
    /// Steps [t, end) read what has come back.
    void before_steps(std::size_t t, std::size_t end) {
        if (moves_.at.empty()) return;
        for (std::size_t k = t; k < end; ++k)
            for (const std::size_t in : moves_.at[k].wait_in)
                if (steps_[k].kind != echo::step_kind::reload) options_.moves->wait_in(in);
    }
    void behind_steps(std::size_t t, std::size_t end) {
        if (moves_.at.empty()) return;
        for (std::size_t k = t; k < end; ++k)
            for (const std::size_t out : moves_.at[k].begin_out) options_.moves->begin_out(out);
    }
    /// An offload or a reload step. What comes back has the bits of what left.
    void move_copy(std::size_t t) {
        const step& each = steps_[t];
        const moves_at_step& at = moves_.at[t];
        if (each.kind == echo::step_kind::offload) {
            behind_steps(t, t + 1); // it may be the first to read a copy that came back
            options_.moves->wait_out(at.own);
            ++counts_.offloaded;
        } else {
            options_.moves->begin_in(at.own);
            for (const std::size_t in : at.wait_in) options_.moves->wait_in(in); // nobody reads it
            ++counts_.reloaded;
        }
        hashes_[each.made[0]] = hashes_[each.read[0]];
    }

    /// Steps [t, end), and what runs inside them.
    void run_together(std::size_t t, std::size_t end) {
        if constexpr (runs_parts) backend_.run(together(t, end));
    }
    std::span<const op_call> together(std::size_t t, std::size_t end) {
        chain_.clear();
        const auto add = [&](std::size_t k) { chain_.push_back({steps_[k].what, call_of(steps_[k])}); };
        for (std::size_t k = t; k < end; ++k) {
            if (!steps_[k].runs) continue;
            std::for_each(steps_[k].inside.begin(), steps_[k].inside.end(), add);
            add(k);
        }
        return chain_;
    }

    void run_step(std::size_t t) {
        step& each = steps_[t];
        before_steps(t, t + 1);
        if (moves_copies(each)) return move_copy(t);
        if (options_.check) check_reads(t);
        if (each.runs) {
            if constexpr (requires { backend_.at_step(t, each.kind, *each.at); })
                backend_.at_step(t, each.kind, *each.at);
            if (options_.profile)
                note_time(each, timed(t));
            else
                run_alone(t);
        }
        note_run(each);
        if (options_.check && !each.fused)
            for (std::size_t k = 0; k < each.out.size(); ++k)
                hashes_[each.made[k]] = hash(each.out[k].data, echo::byte_count(*each.out[k].what));
        behind_steps(t, t + 1);
    }

    /// The step, and what runs inside it.
    void run_alone(std::size_t t) {
        if (steps_[t].inside.empty())
            backend_.run(*steps_[t].what, call_of(steps_[t]));
        else
            run_together(t, t + 1);
    }

    /// Runs it; microseconds.
    double timed(std::size_t t) {
        if constexpr (requires { backend_.timed(*steps_[t].what, call_of(steps_[t])); }) {
            if (steps_[t].inside.empty()) return backend_.timed(*steps_[t].what, call_of(steps_[t]));
            if constexpr (runs_parts) return backend_.timed(together(t, t + 1));
        }
        using clock = std::chrono::steady_clock;
        const auto begin = clock::now();
        run_alone(t);
        return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
    }

    void note_run(const step& each) {
        if (!each.fused)
            for (const auto& out : each.out) touch(out.data, echo::byte_count(*out.what));
        touch(each.scratch.data(), each.scratch.size());
        switch (each.kind) {
        case echo::step_kind::run:
            counts_.run += each.runs;
            break;
        case echo::step_kind::recompute:
            ++counts_.recomputed;
            break;
        case echo::step_kind::encode:
            ++counts_.encoded;
            break;
        case echo::step_kind::offload:
        case echo::step_kind::reload:
            break; // counted where they move
        }
        counts_.fused += each.fused;
        counts_.seeded += each.seeded;
        counts_.late += each.late;
        counts_.inplace += each.inplace;
    }

    void note_time(step& each, double us) {
        each.us += us;
        layer_profile& layer = layers_[each.at->layer];
        for (const auto& out : each.out) layer.bytes += echo::byte_count(*out.what);
        if (each.kind != echo::step_kind::run)
            layer.recompute_us += us;
        else if (each.at->phase == echo::phase::forward)
            layer.forward_us += us;
        else if (each.at->phase == echo::phase::backward)
            layer.backward_us += us;
        else
            layer.update_us += us;
    }

    /// The same bytes on the host, until the next call.
    const void* on_host(const void* data, std::uint64_t bytes) const {
        if (memory_.on_host()) return data;
        looked_at_.resize(bytes);
        memory_.read(looked_at_.data(), data, bytes);
        return looked_at_.data();
    }

    std::uint64_t hash(const void* data, std::uint64_t bytes) const {
        std::uint64_t h = 0xcbf29ce484222325u;
        const auto* at = static_cast<const unsigned char*>(on_host(data, bytes));
        for (; bytes >= 8; bytes -= 8, at += 8) {
            std::uint64_t word;
            std::memcpy(&word, at, 8);
            h = (h ^ word) * 0x9E3779B97F4A7C15u;
            h ^= h >> 29;
        }
        for (; bytes; --bytes) h = (h ^ *at++) * 0x100000001b3u;
        return h;
    }

    void check_reads(std::size_t t) const {
        const step& each = steps_[t];
        if (each.fused) return; // what it reads is read where it runs
        for (const std::size_t inner : each.inside) check_inputs(steps_[inner], t);
        check_inputs(each, t);
    }
    void check_inputs(const step& each, std::size_t t) const {
        for (std::size_t i = 0; i < each.in.size(); ++i) {
            const auto& in = each.in[i];
            if (in.slot != no_slot) continue;
            const std::uint64_t bytes =
                in.packed ? echo::encoded_bytes(elements(*in.what)) : echo::byte_count(*in.what);
            if (hash(in.data, bytes) != hashes_[each.read[i]])
                throw echo::error(each.at->name, "arena",
                                  "step " + std::to_string(t) + " reads input " + std::to_string(i) +
                                      ", which was overwritten while it was live",
                                  "check the plan with echo::verify");
        }
    }

    /// Runs again up to the loss and looks at everything that is made on the way.
    [[noreturn]] void refuse_loss() {
        const std::string advice = "lower the learning rate, or clip the gradients";
        if (!moves_.at.empty()) {
            options_.moves->give_up();
            options_.moves->begin_step();
        }
        for (std::size_t t = 0; t <= loss_step_; ++t) {
            run_step(t);
            if (steps_[t].fused) continue;
            for (const auto& out : steps_[t].out) {
                if (out.what->type != echo::dtype::f32) continue;
                const auto* const made =
                    static_cast<const float*>(on_host(out.data, echo::byte_count(*out.what)));
                for (std::size_t i = 0; i < out.size(); ++i)
                    if (!std::isfinite(made[i]))
                        throw echo::error(steps_[t].at->name, "loss",
                                          "not finite in step " + std::to_string(now_.iteration) +
                                              "; this node is the first with such an output",
                                          advice);
            }
        }
        throw echo::error(steps_[loss_step_].at->name, "loss",
                          "not finite in step " + std::to_string(now_.iteration), advice);
    }

    Backend& backend_;
    tensor_memory& memory_;
    residents& outside_;
    executor_options options_;
    memory_piece arena_;
    memory_piece numbers_; ///< `now_`, and behind it `seeds_`, where ops read them
    step_numbers now_{};
    std::vector<std::uint64_t> seeds_; ///< of the random nodes, in this step
    std::vector<node*> nodes_;
    std::vector<tensors> graph_tensors_; ///< per node: its inputs
    std::vector<std::unique_ptr<echo::tensor>> encoded_;
    op encode_ = ops::encode{};
    std::vector<step> steps_;
    planned_moves moves_;
    std::vector<op_call> chain_;            ///< the one that runs
    std::vector<std::size_t> recordings_{}; ///< of the steps up to the loss's, and behind it
    mutable std::vector<std::byte> looked_at_{};
    std::size_t chained_ = 0;
    std::vector<std::size_t> first_copy_{0}; ///< per step, and one more: the number of its first copy
    std::vector<std::byte*> places_;         ///< per copy
    std::vector<std::uint64_t> hashes_;      ///< per copy, with `check`
    std::vector<std::int64_t> slots_;        ///< per copy; `no_slot` but for those of fused steps
    std::map<std::pair<const node*, std::size_t>, std::byte*> latest_;
    const void* loss_at_ = nullptr;
    float loss_ = 0;
    std::size_t loss_step_ = 0;
    std::uint64_t high_water_ = 0, runs_ = 0;
    step_counts counts_;
    std::map<std::string, layer_profile> layers_;
};

} // namespace engine
