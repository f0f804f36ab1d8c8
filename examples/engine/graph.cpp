// SPDX-License-Identifier: BSL-1.0
#include "engine/graph.hpp"

#include <tuple>

namespace engine {

graph::graph(engine::baseline habits) : habits_(habits) {}
graph::~graph() = default;

value graph::add(engine::op o, std::vector<value> inputs) {
    node& n = make(std::move(o), std::move(inputs));
    n.outputs = infer(n);
    link(&n, nullptr);
    return {&n, 0};
}

value graph::add_input(std::string name, echo::tensor what, engine::role role, ops::initial start) {
    const auto outer = std::exchange(phase_, echo::phase::input);
    const value v = add(ops::input{std::move(what), start}, {});
    phase_ = outer;
    v.producer->role = role;
    rename(v, std::move(name));
    return v;
}

std::vector<value> graph::inputs(engine::role role) const {
    std::vector<value> found;
    for (node* n : nodes())
        if (n->role == role) found.push_back({n, 0});
    return found;
}

tensors graph::infer(const node& n, tensor_span inputs) const {
    try {
        return engine::infer(n.op, inputs);
    } catch (const echo::error& e) {
        throw echo::error(n.name, e.key(), std::string(name_of(n.op)) + " " + e.problem(), e.advice());
    }
}

tensors graph::inputs_of(const node& n) const {
    tensors in;
    in.reserve(n.inputs.size());
    for (const value& v : n.inputs) in.push_back((*this)[v]);
    return in;
}

gradients graph::differentiate(node* n, std::span<const std::optional<value>> dy) {
    differentiation d{n->inputs, {}, dy};
    for (std::size_t k = 0; k < n->outputs.size(); ++k) d.y.push_back({n, k});
    const auto outer = std::tuple(phase_, prefix_, layer_, gradient_of_);
    phase_ = echo::phase::backward, prefix_ = n->name + ".gradient", layer_ = n->layer, gradient_of_ = n;
    naming_gradients_ = true;
    gradients made = std::visit(
        [&](const auto& one) {
            if constexpr (requires { one.gradient(*this, d); })
                return one.gradient(*this, d);
            else
                return gradients(d.x.size());
        },
        n->op);
    naming_gradients_ = false;
    std::tie(phase_, prefix_, layer_, gradient_of_) = outer;
    return made;
}

node* graph::clone(const node* n, std::span<const value> inputs, node* before) {
    node& copy = nodes_.emplace_back(*n);
    copy.name = unique(n->name + ".again");
    copy.inputs.assign(inputs.begin(), inputs.end());
    copy.gradient_of = nullptr;
    link(&copy, before);
    return &copy;
}

node* graph::encode(const value& v, node* before) {
    node& n = nodes_.emplace_back();
    n.op = ops::encode{};
    n.name = unique(v.producer->name + ".encoded");
    n.layer = v.producer->layer;
    n.inputs = {v};
    n.outputs = infer(n);
    link(&n, before);
    return &n;
}

node& graph::make(engine::op o, std::vector<value> inputs) {
    const bool random = std::holds_alternative<ops::elementwise<ops::dropout_op>>(o);
    node& n = nodes_.emplace_back();
    n.op = std::move(o);
    n.name = unique(naming_gradients_ ? prefix_ : prefix_ + std::string(name_of(n.op)));
    n.layer = layer_;
    n.phase = phase_;
    n.inputs = std::move(inputs);
    n.gradient_of = gradient_of_;
    if (random) n.seed = ++seeds_;
    return n;
}

std::string graph::unique(std::string name) {
    const std::size_t again = names_[name]++;
    return again ? name + "#" + std::to_string(again) : name;
}

void graph::link(node* n, node* before) {
    n->behind = before;
    n->before = before ? before->before : last_;
    (n->before ? n->before->behind : first_) = n;
    (before ? before->before : last_) = n;
    if (before)
        moved_ = true;
    else if (!moved_)
        n->position = size_;
    ++size_;
}

void graph::unlink(node* n) {
    (n->before ? n->before->behind : first_) = n->behind;
    (n->behind ? n->behind->before : last_) = n->before;
    --size_;
    moved_ = true;
}

} // namespace engine
