// SPDX-License-Identifier: BSL-1.0
// Echo as a graph pass of MXNet: `symbol.optimize_for("echo", args, aux, shape_dict=.., budget=..)` returns the symbol
// with `__force_mirroring__` on the nodes to run again, which MXNet's own gradient pass obeys when the symbol is bound.
// Options: max_overhead (a part of a step's time; 0.05), budget (bytes of MXNet's pool, as 800000000, 800MiB, or a
// ratio of the baseline's below 1), no_gradient (names, by commas, bound with grad_req null; without it all that end in
// `data` or `label`), report (1: a line on standard error). A fault of ours leaves the symbol as it was.
#include "judge.hpp"

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>

namespace {

using options = std::unordered_map<std::string, std::string>;

double number(const std::string& key, const std::string& text, double unit = 1) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const std::string_view rest(end);
    if (rest == "KiB")
        unit *= 1024;
    else if (rest == "MiB")
        unit *= 1024 * 1024;
    else if (rest == "GiB")
        unit *= 1024.0 * 1024 * 1024;
    else if (!rest.empty())
        unit = -1;
    if (text.empty() || unit < 0 || !(value >= 0) || !std::isfinite(value * unit) || value * unit > 1e18)
        throw echo::error({}, key, "'" + text + "' is no number of 0 or more",
                          "give for example budget=800MiB or 0.6");
    return value * unit;
}

/// What is asked for.
struct wishes {
    echo::mark_options marks{};
    std::optional<double> ratio{};                              ///< of a budget
    std::optional<std::vector<std::string>> without_gradient{}; ///< names
    bool report = false;

    bool is_data(const std::string& name) const {
        if (!without_gradient) return name.ends_with("data") || name.ends_with("label");
        return std::find(without_gradient->begin(), without_gradient->end(), name) != without_gradient->end();
    }
};

wishes read_wishes(const options& given) {
    wishes asked;
    for (const auto& [key, text] : given) {
        if (key == "max_overhead") {
            asked.marks.max_overhead = number(key, text);
            asked.marks.names_overhead = true;
        } else if (key == "budget") {
            const double bytes = number(key, text);
            if (bytes < 1)
                asked.ratio = bytes;
            else
                asked.marks.budget = static_cast<std::uint64_t>(bytes);
        } else if (key == "no_gradient") {
            asked.without_gradient.emplace();
            std::istringstream names(text);
            for (std::string name; std::getline(names, name, ',');) asked.without_gradient->push_back(name);
        } else if (key == "report") {
            asked.report = text == "1" || text == "True";
        } else if (key == "fail") { // for tests of what a fault of ours leads to
            throw std::runtime_error("asked to fail");
        } else {
            throw echo::error({}, key, "is no option", "give max_overhead, budget, no_gradient or report");
        }
    }
    return asked;
}

void mark(mxnet::ext::Graph& g, const options& given) {
    wishes asked = read_wishes(given);
    const echo::snapshot s = echo::read(std::as_const(g));
    const echo_mxnet::forward_pass f(g, s, [&](const std::string& name) { return asked.is_data(name); });
    const auto judge = [&](const echo::marks& marked) { return echo_mxnet::judge(f, marked); };
    if (asked.ratio) {
        const auto all = judge(echo::marks(g.size(), false)).bytes;
        asked.marks.budget = static_cast<std::uint64_t>(*asked.ratio * static_cast<double>(all));
    }
    const auto found = echo::mark_search(f.graph, asked.marks, judge).run();

    std::set<std::string> unknown;
    for (std::size_t n = 0; n < g.size(); ++n)
        if (s[echo::node_id(n)].unknown_op) unknown.insert(g.getNode(n)->op);
    echo_mxnet::write_marks(g, found.marked);
    for (const std::string& op : unknown)
        std::cerr << "echo: unknown op " << op
                  << ": its nodes are left alone, and the megabytes are estimates\n";
    if (asked.marks.budget != echo::any_peak && found.got.bytes > asked.marks.budget)
        std::cerr << "echo: the budget of " << (asked.marks.budget >> 20)
                  << " MB is not reached; the least found is " << (found.got.bytes >> 20) << " MB\n";
    if (asked.report)
        std::cerr << "echo: " << (found.baseline.bytes >> 20) << " -> " << (found.got.bytes >> 20)
                  << " MB (MXNet's mirror: " << (found.mirror.bytes >> 20) << " MB), "
                  << std::count(found.marked.begin(), found.marked.end(), true) << " of " << g.size()
                  << " nodes marked, copies take " << 100 * found.overhead() << " % of a step, "
                  << found.trials << " sets of marks tried\n";
}

mxnet::ext::MXReturnValue pass(mxnet::ext::Graph* g, const options& given) {
    try {
        mark(*g, given);
    } catch (const std::exception& fault) {
        std::cerr << "echo: the symbol stays as it is: " << fault.what() << '\n';
        for (std::size_t n = 0; n < g->size(); ++n) {
            g->getNode(n)->attrs.erase("__ext_shape__");
            g->getNode(n)->attrs.erase("__ext_dtype__");
        }
    }
    return mxnet::ext::MX_SUCCESS;
}

REGISTER_PASS(echo).setBody(pass);

} // namespace

mxnet::ext::MXReturnValue initialize(int version) {
    if (version >= 10900 && version < 11000) return mxnet::ext::MX_SUCCESS;
    MX_ERROR_MSG << "echo: built for MXNet 1.9, not for version " << version;
    return mxnet::ext::MX_FAIL;
}
