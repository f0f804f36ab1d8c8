// SPDX-License-Identifier: BSL-1.0
// echo-paper: reads one query per line, JSON, and answers each with a line.
//   {"model": "nmt", "preset": "paper", "sizes": {"batch": 64}, "modern": false, "mirror": false, "loss_in_place": false,
//    "keep_random": false, "keep_heavy_inputs": false, "plans": [{"how": "echo", "encode": true, "overhead": 0}]}
#include "measure.hpp"

#include <nlohmann/json.hpp>

#include <iostream>

namespace {

using nlohmann::json;

paper::workload workload_of(const json& query) {
    paper::workload w;
    w.model = query.at("model");
    w.preset = query.value("preset", w.preset);
    w.habits = query.value("modern", false) ? engine::baseline::modern : engine::baseline::paper;
    w.mirror = query.value("mirror", false);
    w.loss_in_place = query.value("loss_in_place", false);
    w.keep_random = query.value("keep_random", false);
    w.keep_heavy_inputs = query.value("keep_heavy_inputs", false);
    const json sizes = query.value("sizes", json::object());
    for (const auto& [name, size] : sizes.items()) w.sizes.emplace_back(name, size.get<std::int64_t>());
    return w;
}

json rows(const std::vector<echo::profile_row>& all) {
    json made = json::object();
    for (const auto& row : all) made[row.name] = row.bytes;
    return made;
}

json answer(const json& query) {
    const auto subject = paper::make_subject(workload_of(query));
    json made{{"nodes", subject.graph.node_count()},
              {"forward_nodes", subject.forward_nodes},
              {"parameters", subject.resident.parameters},
              {"gradients", subject.resident.gradients},
              {"states", subject.resident.states},
              {"data", subject.resident.data},
              {"total_us", subject.total_us},
              {"us_by_op", subject.us_by_op},
              {"resident_by_layer", subject.resident_by_layer},
              {"plans", json::array()}};
    for (const auto& plan : query.value("plans", json::array({json::object()}))) {
        const paper::plan_query asked{plan.value("how", "baseline"), plan.value("encode", true),
                                      plan.value("bytes", echo::any_peak), plan.value("overhead", 0.0)};
        const auto f = paper::measure(subject, asked);
        made["plans"].push_back({{"how", asked.how},
                                 {"peak", f.peak},
                                 {"stash", f.stash},
                                 {"bound", f.bound},
                                 {"arena", f.arena},
                                 {"pool", f.pool},
                                 {"pool_of_2", f.pool_of_2},
                                 {"recompute", f.recompute},
                                 {"ms", f.milliseconds},
                                 {"again", f.again},
                                 {"encoded", f.encoded},
                                 {"subgraphs", f.subgraphs},
                                 {"largest_subgraph", f.largest_subgraph},
                                 {"at", f.profile.at},
                                 {"by_structure", rows(f.profile.by_structure)},
                                 {"by_layer", rows(f.profile.by_layer)},
                                 {"by_op", rows(f.profile.by_op)}});
    }
    return made;
}

} // namespace

int main() {
    try {
        for (std::string line; std::getline(std::cin, line);)
            std::cout << answer(json::parse(line)) << std::endl;
    } catch (const std::exception& e) {
        std::cerr << "echo-paper: " << e.what() << '\n';
        return 1;
    }
}
