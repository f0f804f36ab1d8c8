
// What stands behind README's code, so that it is a program. Each step of a decoder adds its query to the same keys and takes
// the tanh: a feature map as large as the keys, which one addition and one tanh rebuild.
int main() {
    using enum echo::phase;
    std::vector<std::unique_ptr<node>> made;
    graph g;
    const auto add = [&](std::string op, echo::phase phase, std::vector<echo::value_of<node*>> inputs,
                         echo::shape shape) {
        const echo::tensor out{.shape = shape, .type = echo::dtype::f32};
        made.push_back(std::make_unique<node>(node{std::move(op), phase, std::move(inputs), {out}}));
        g.order.push_back(made.back().get());
        return echo::value_of<node*>{made.back().get(), 0};
    };
    const echo::shape map{4096, 512}, row{1, 512}, column{4096, 1};
    const auto x = add("data", input, {}, {4096, 4096}), h = add("state", input, {}, {1, 4096}),
               u = add("u", input, {}, {4096, 512}), v = add("v", input, {}, {512, 1});
    const auto keys = add("aten.mm", forward, {x, u}, map);
    std::vector<echo::value_of<node*>> maps, scores;
    for (int step = 0; step < 8; ++step) {
        const auto query = add("aten.mm", forward, {h, u}, row);
        const auto sum = add("aten.add.Tensor", forward, {keys, query}, map);
        maps.push_back(add("aten.tanh", forward, {sum}, map));
        scores.push_back(add("aten.mm", forward, {maps.back(), v}, column));
    }
    auto total = scores.front();
    for (std::size_t i = 1; i < scores.size(); ++i)
        total = add("aten.add.Tensor", forward, {total, scores[i]}, column);
    auto sum = add("aten.zeros", backward, {}, map);
    for (std::size_t i = scores.size(); i-- > 0;) {
        const auto dy = add("aten.mul.Tensor", backward, {total, scores[i]}, column);
        const auto da = add("aten.mul.Tensor", backward, {maps[i], dy}, map);
        const auto de = add("aten.tanh_backward", backward, {da, maps[i]}, map);
        sum = add("aten.add.Tensor", backward, {sum, de}, map);
    }
    g.results = {total, sum};
    plan(g);
    const auto report = echo::make_plan(echo::read(g)).report();
    return report.peak_bytes < report.baseline_peak_bytes ? 0 : 1;
}
