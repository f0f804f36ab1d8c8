// SPDX-License-Identifier: BSL-1.0
/// @file
/// `section_search`: whether a set of intervals fits into a capacity, by exact search. It never chooses in
/// which order to place: it asks which item covers the lowest place left at some moment, the moment being the
/// one with the fewest answers, and works on parts that share no item apart from each other. The pruning is that
/// of the published solvers (Moffitt, "MiniMalloc", ASPLOS 2023; Maas et al., "TelaMalloc", ASPLOS 2023): section
/// inference, the floor of what is unplaced, decomposition in time; the questions make it free of the
/// permutations that those cut by canonical order and dominance.
#pragma once

#include <echo/analysis/memory/arena/sections.hpp>
#include <echo/analysis/memory/arena/valleys.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo::arena {

/// What a search has come to.
enum class verdict { fits, cannot_fit, stopped };

/// Depth first on a stack of its own. Scratch memory is kept between calls. The timeline must outlive it.
class section_search {
public:
    explicit section_search(const timeline& line) : line_(line), state_(line), valleys_(line) {}

    /// Searches for a placement of all items within `capacity`, in bytes, of at least the load. Where several
    /// items answer a question, the one of the smallest `rank` (one per item) is tried first. Stops after
    /// `max_questions`, or when `work()` has reached `max_work`: without those, the time may grow exponentially.
    /// Where items fit, `offsets()` tells how.
    verdict run(std::uint64_t capacity, std::span<const std::uint32_t> rank, const valleys::prices& prices,
                std::uint64_t max_questions, std::uint64_t max_work) {
        state_.clear(capacity);
        valleys_.clear(capacity, prices);
        rank_ = rank;
        answers_.clear();
        part_first_.clear();
        part_last_.clear();
        frames_.clear();
        frames_.push_back({}); // above all others: a question without answers
        if (line_.size()) split(0, line_.times() - 1);
        while (next_part()) {
            if (max_questions-- == 0 || work() >= max_work) return verdict::stopped;
            if (!ask() && !retry()) return verdict::cannot_fit;
        }
        return verdict::fits;
    }

    /// One per item of the timeline, in bytes.
    std::span<const std::uint64_t> offsets() const noexcept { return state_.offsets(); }
    /// As `sections::work`, of all runs.
    std::uint64_t work() const noexcept { return state_.work(); }

private:
    /// A question about a part. The answer in force splits it into smaller parts, which must all be solved.
    struct frame {
        std::uint32_t first = 0, last = 0; ///< the part, in moments
        std::uint32_t above = 0;           ///< the frame whose answer made the part
        std::uint32_t moment = 0;
        std::uint32_t answer = 0, answer_end = 0; ///< what is left in `answers_`
        std::uint32_t part_begin = 0;             ///< the smaller parts
        std::uint32_t next = 0, part_end = 0;     ///< those which are left
        std::uint64_t without = 0;                ///< the floor at `moment` if no item lies there; 0: tried
        std::size_t mark = 0;
    };

    /// Opens a frame for the next part that is left; false if all is solved.
    bool next_part() {
        while (frames_[current_].next == frames_[current_].part_end) {
            if (current_ == 0) return false;
            current_ = frames_[current_].above;
        }
        const std::uint32_t i = frames_[current_].next++;
        frames_.push_back({.first = part_first_[i],
                           .last = part_last_[i],
                           .above = current_,
                           .part_begin = static_cast<std::uint32_t>(part_last_.size())});
        return true;
    }

    /// Finds the last frame's question and takes the first answer. False if its part cannot be solved.
    bool ask() {
        frame& f = frames_.back();
        valleys::question q;
        const auto found = valleys_.settle(state_, f.first, f.last, q);
        if (found == valleys::finding::dead) return false;
        if (found == valleys::finding::empty) {
            frames_.pop_back();
            return true;
        }
        f.moment = q.moment;
        f.mark = state_.mark();
        f.answer = static_cast<std::uint32_t>(answers_.size());
        const std::uint64_t floor = state_.floor(q.moment);
        std::uint64_t above_floor = q.wall - floor;
        state_.for_each_within(q.first, q.last, [&](std::uint32_t i) {
            const interval& x = line_[i];
            if (x.first <= q.moment && q.moment <= x.last)
                add_answer(f.answer, i);
            else if (x.bytes < above_floor)
                above_floor = x.bytes;
        });
        f.answer_end = static_cast<std::uint32_t>(answers_.size());
        f.without = floor + above_floor;
        return take_answer();
    }

    /// Adds an item in the order of rank, unless its equal is among the answers.
    void add_answer(std::uint32_t begin, std::uint32_t i) {
        if (i > 0 && line_[i - 1] == line_[i] && state_.waits(i - 1)) return;
        std::size_t at = answers_.size();
        answers_.push_back(i);
        for (; at > begin && rank_[answers_[at - 1]] > rank_[i]; --at) answers_[at] = answers_[at - 1];
        answers_[at] = i;
    }

    /// Takes back the last frame's answer and takes its next one; false if none is left.
    bool take_answer() {
        frame& f = frames_.back();
        state_.undo(f.mark);
        answers_.resize(f.answer_end);
        part_first_.resize(f.part_begin);
        part_last_.resize(f.part_begin);
        if (f.answer < f.answer_end)
            state_.put(answers_[f.answer++]);
        else if (f.without == 0 || !state_.lift(f.moment, std::exchange(f.without, 0)))
            return false;
        split(f.first, f.last);
        return true;
    }

    /// The last frame's part cannot be solved: the answer that made it is wrong. False if none is left.
    bool retry() {
        while (const std::uint32_t above = frames_.back().above) {
            while (frames_.size() > above + std::size_t{1}) frames_.pop_back();
            if (take_answer()) return true;
        }
        return false;
    }

    /// Gives the last frame the parts of a stretch, shortest first.
    void split(std::uint32_t first, std::uint32_t last) {
        current_ = static_cast<std::uint32_t>(frames_.size() - 1);
        frame& f = frames_.back();
        f.next = f.part_begin;
        for (std::uint32_t start = first; start <= last; ++start) {
            const std::uint32_t end = state_.gap(start);
            std::size_t at = part_last_.size();
            part_first_.push_back(start);
            part_last_.push_back(end);
            for (; at > f.next && part_last_[at - 1] - part_first_[at - 1] > end - start; --at) {
                part_first_[at] = part_first_[at - 1];
                part_last_[at] = part_last_[at - 1];
            }
            part_first_[at] = start;
            part_last_[at] = end;
            start = end;
        }
        f.part_end = static_cast<std::uint32_t>(part_last_.size());
    }

    const timeline& line_;
    sections state_;
    valleys valleys_;
    std::span<const std::uint32_t> rank_;
    std::vector<frame> frames_;
    std::vector<std::uint32_t> answers_;
    std::vector<std::uint32_t> part_first_, part_last_;
    std::uint32_t current_ = 0; ///< the frame whose parts are being solved
};

} // namespace echo::arena
