// SPDX-License-Identifier: BSL-1.0
// Echo as a graph pass of MXNet: `symbol.optimize_for("echo", args, aux, shape_dict=.., budget=..)` returns the symbol
// with `__force_mirroring__` on the nodes to run again, which MXNet's own gradient pass obeys when the symbol is bound.
// Options: max_overhead (a part of a step's time; 0.05), budget (bytes of MXNet's pool, as 800000000, 800MiB, or a
// ratio of the baseline's below 1), no_gradient (names, by commas, bound with grad_req null; without it all that end in
// `data` or `label`), report (1: a line on standard error). A fault of ours leaves the symbol as it was.
#include "nnvm.hpp"

#include <cmath>
#include <cstdlib>
#include <iostream>
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

void mark(mxnet::ext::Graph& g, const options& given) {
    echo::mark_options wishes;
    std::vector<std::string> data;
    bool named = false, report = false;
    std::optional<double> ratio;
    for (const auto& [key, text] : given) {
        if (key == "max_overhead") {
            wishes.max_overhead = number(key, text);
            wishes.names_overhead = true;
        } else if (key == "budget") {
            const double bytes = number(key, text);
            if (bytes < 1)
                ratio = bytes;
            else
                wishes.budget = static_cast<std::uint64_t>(bytes);
        } else if (key == "no_gradient") {
            named = true;
            std::istringstream names(text);
            for (std::string name; std::getline(names, name, ',');) data.push_back(name);
        } else if (key == "report") {
            report = text == "1" || text == "True";
        } else if (key == "fail") { // for tests of what a fault of ours leads to
            throw std::runtime_error("asked to fail");
        } else {
            throw echo::error({}, key, "is no option", "give max_overhead, budget, no_gradient or report");
        }
    }
    const auto is_data = [&](const std::string& name) {
        if (named) return std::find(data.begin(), data.end(), name) != data.end();
        return name.ends_with("data") || name.ends_with("label");
    };
    const echo::snapshot s = echo::read(std::as_const(g));
    const echo_mxnet::forward_pass f(g, s, is_data);
    const auto judge = [&](const echo::marks& marked) { return echo_mxnet::step_graph(f, marked).judge(); };
    if (ratio) {
        const auto all = judge(echo::marks(g.size(), false)).bytes;
        wishes.budget = static_cast<std::uint64_t>(*ratio * static_cast<double>(all));
    }
    const auto found = echo::mark_search(f.graph, wishes, judge).run();

    std::size_t marked = 0;
    std::set<std::string> unknown;
    for (std::size_t n = 0; n < g.size(); ++n) {
        g.getNode(n)->attrs.erase("__ext_shape__"); // they were for us
        g.getNode(n)->attrs.erase("__ext_dtype__");
        if (found.marked[n])
            g.getNode(n)->attrs["__force_mirroring__"] = "True";
        else
            g.getNode(n)->attrs.erase("__force_mirroring__"); // of a pass before
        marked += found.marked[n];
        if (s[echo::node_id(n)].unknown_op) unknown.insert(g.getNode(n)->op);
    }
    for (const std::string& op : unknown)
        std::cerr << "echo: unknown op " << op
                  << ": its nodes are left alone, and the megabytes are estimates\n";
    if (wishes.budget != echo::any_peak && found.got.bytes > wishes.budget)
        std::cerr << "echo: the budget of " << (wishes.budget >> 20)
                  << " MB is not reached; the least found is " << (found.got.bytes >> 20) << " MB\n";
    if (report)
        std::cerr << "echo: " << (found.baseline.bytes >> 20) << " -> " << (found.got.bytes >> 20)
                  << " MB (MXNet's mirror: " << (found.mirror.bytes >> 20) << " MB), " << marked << " of "
                  << g.size() << " nodes marked, copies take " << 100 * found.overhead() << " % of a step, "
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
    if (version >= 10700 && version < 20000) return mxnet::ext::MX_SUCCESS;
    MX_ERROR_MSG << "echo: built for MXNet 1.9, not for version " << version;
    return mxnet::ext::MX_FAIL;
}
