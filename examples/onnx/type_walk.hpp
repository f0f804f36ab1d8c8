// SPDX-License-Identifier: BSL-1.0
/// @file
/// `type_walk`: types of all values of a model, node by node in the file's order: by the rule of each op, by what the
/// model states, and by small tensors that are evaluated on the way. Compiled into model.cpp alone.
#pragma once

#include "onnx/bodies.hpp"
#include "onnx/fold.hpp"
#include "onnx/node_proto.hpp"
#include "onnx/shape_rules.hpp"
#include "onnx/type_scope.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace echo::format {

/// A node as the rules of the ONNX library see it.
class rule_context : public onnx::InferenceContext {
public:
    /// `infer_body(body, input types)` returns the types of its outputs.
    using body_function = std::function<std::vector<onnx::TypeProto>(
        const onnx::GraphProto&, const std::vector<const onnx::TypeProto*>&)>;

    rule_context(const onnx::NodeProto& node, const type_scope& scope, body_function infer_body)
        : node_(node), scope_(scope), infer_body_(std::move(infer_body)),
          outputs_(static_cast<std::size_t>(node.output_size())) {}

    const onnx::AttributeProto* getAttribute(const std::string& name) const override {
        return attribute(node_, name);
    }
    std::size_t getNumInputs() const override { return static_cast<std::size_t>(node_.input_size()); }
    const onnx::TypeProto* getInputType(std::size_t k) const override {
        return name(k).empty() ? nullptr : scope_.type(name(k));
    }
    const onnx::TensorProto* getInputData(std::size_t k) const override {
        return name(k).empty() ? nullptr : scope_.constant(name(k));
    }
    const onnx::TensorShapeProto* getSymbolicInput(std::size_t k) const override {
        return name(k).empty() ? nullptr : scope_.extents(name(k));
    }
    const onnx::SparseTensorProto* getInputSparseData(std::size_t) const override { return nullptr; }
    std::size_t getNumOutputs() const override { return outputs_.size(); }
    onnx::TypeProto* getOutputType(std::size_t k) override { return &outputs_.at(k); }
    onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
        const auto* const found = attribute(node_, name);
        if (found == nullptr || !found->has_g()) throw error({}, name, "holds no graph");
        bodies_.push_back(std::make_unique<body>(*this, found->g()));
        return bodies_.back().get();
    }

    std::vector<onnx::TypeProto>& outputs() noexcept { return outputs_; }

private:
    class body : public onnx::GraphInferencer {
    public:
        body(rule_context& context, const onnx::GraphProto& graph) : context_(context), graph_(graph) {}
        std::vector<const onnx::TypeProto*>
        doInferencing(const std::vector<const onnx::TypeProto*>& inputs,
                      const std::vector<const onnx::TensorProto*>&) override {
            types_ = context_.infer_body_(graph_, inputs);
            std::vector<const onnx::TypeProto*> made;
            for (const auto& type : types_) made.push_back(&type);
            return made;
        }

    private:
        rule_context& context_;
        const onnx::GraphProto& graph_;
        std::vector<onnx::TypeProto> types_;
    };

    const std::string& name(std::size_t k) const { return node_.input(static_cast<int>(k)); }

    const onnx::NodeProto& node_;
    const type_scope& scope_;
    body_function infer_body_;
    std::vector<onnx::TypeProto> outputs_;
    std::vector<std::unique_ptr<body>> bodies_;
};

class type_walk {
public:
    type_walk(const onnx::ModelProto& model, stated_extents& stated) : stated_(stated) {
        for (const auto& import : model.opset_import())
            versions_[import.domain() == "ai.onnx" ? "" : import.domain()] =
                static_cast<int>(import.version());
        for (const auto& f : model.functions()) functions_[f.domain() + ":" + f.name()] = &f;
        graph(model.graph(), scope_, {}, nullptr);
    }

    /// Of the values of the graph itself.
    const std::unordered_map<std::string, onnx::TypeProto>& types() const noexcept { return scope_.types(); }
    /// Values whose type is not known in full though all inputs of their node are, with what the rule says of it.
    const std::unordered_map<std::string, std::string>& open() const noexcept { return open_; }
    /// Values of which the model states another type than the rule of the op gives.
    const std::vector<std::string>& notes() const noexcept { return notes_; }

private:
    using statements = std::unordered_map<std::string, onnx::TypeProto>;

    /// `given` are the types of a body's inputs, as far as they are known, and `second` is what input 1 holds.
    void graph(const onnx::GraphProto& graph, type_scope& scope,
               const std::vector<const onnx::TypeProto*>& given, const held_tensor* second) {
        for (int k = 0; k < graph.input_size(); ++k) {
            onnx::TypeProto type = graph.input(k).type();
            const auto* known =
                static_cast<std::size_t>(k) < given.size() ? given[static_cast<std::size_t>(k)] : nullptr;
            stated_.bind_names(type);
            if (known != nullptr) complete(type, *known);
            stated_.bind(graph.input(k).name(), type);
            if (outermost_ && !is_settled(type)) open_[graph.input(k).name()];
            scope.set(graph.input(k).name(), std::move(type));
        }
        if (second != nullptr && graph.input_size() > 1) scope.hold(graph.input(1).name(), *second);
        const auto weights = [&](const std::string& name, std::int32_t element, const auto& extents) {
            open_.erase(name);
            scope.set(name, type_of(element, extents));
        };
        for (const auto& t : graph.initializer()) {
            weights(t.name(), t.data_type(), t.dims());
            if (auto numbers = held(t)) scope.hold(t.name(), std::move(*numbers));
        }
        for (const auto& t : graph.sparse_initializer())
            weights(t.values().name(), t.values().data_type(), t.dims());
        const statements stated = statements_of(graph);
        for (const auto& node : graph.node()) visit(node, scope, stated);
    }

    /// Of two statements about one value the more exact one holds.
    statements statements_of(const onnx::GraphProto& graph) {
        statements all;
        for (const auto* values : {&graph.output(), &graph.value_info()})
            for (const auto& value : *values) {
                onnx::TypeProto type = value.type();
                stated_.bind_names(type);
                onnx::TypeProto& known = all[value.name()];
                const onnx::TypeProto before = known;
                if (complete(known, type)) disagree(value.name(), before, type, "another statement", known);
            }
        return all;
    }

    /// Notes that two types of a value are not the same, and which is taken.
    void disagree(const std::string& value, const onnx::TypeProto& stated, const onnx::TypeProto& other,
                  const std::string& whose, const onnx::TypeProto& taken) {
        const auto text = [](const onnx::TypeProto& type) {
            return type.has_tensor_type() ? shown(type.tensor_type().shape()) : std::string("no tensor");
        };
        const std::string mine = text(stated), theirs = text(other);
        const bool same_rank =
            taken.tensor_type().shape().dim_size() == stated.tensor_type().shape().dim_size();
        note("'" + value + "' is " +
             (mine == theirs ? "of one element type by the model and of another by " + whose
                             : mine + " by the model and " + theirs + " by " + whose) +
             (same_rank ? ": the model's statement is taken" : ", which is more exact and is taken"));
    }
    void note(std::string text) {
        if (noted_.insert(text).second) notes_.push_back(std::move(text));
    }

    void visit(const onnx::NodeProto& node, type_scope& scope, const statements& stated) {
        std::string problem;
        folded numbers;
        std::vector<onnx::TypeProto> made = inferred(node, scope, problem, numbers);
        bool inputs_are_known = true;
        const auto look = [&](const std::string& input) {
            if (const auto* type = input.empty() ? nullptr : scope.type(input); type != nullptr)
                inputs_are_known = inputs_are_known && is_settled(*type);
        };
        std::ranges::for_each(node.input(), look);
        each_capture(node, look);
        for (int k = 0; k < node.output_size(); ++k) {
            const std::string& name = node.output(k);
            if (name.empty()) continue;
            onnx::TypeProto& rule = made[static_cast<std::size_t>(k)];
            const auto statement = stated.find(name);
            onnx::TypeProto type = statement == stated.end() ? onnx::TypeProto() : statement->second;
            const onnx::TypeProto before = type;
            if (complete(type, rule)) disagree(name, before, rule, "the rule of " + node.op_type(), type);
            stated_.bind(name, type);
            if (outermost_ && inputs_are_known && !is_settled(type)) open_[name] = problem;
            scope.set(name, std::move(type));
        }
        if (numbers.empty()) numbers = evaluated(node, scope);
        for (std::size_t k = 0; k < numbers.size() && k < made.size(); ++k)
            if (numbers[k] && !node.output(static_cast<int>(k)).empty())
                hold(node.output(static_cast<int>(k)), std::move(*numbers[k]), scope);
    }

    /// What is evaluated has a shape, also where the rule of the op leaves it open.
    void hold(const std::string& name, held_tensor made, type_scope& scope) {
        onnx::TypeProto type = *scope.type(name);
        if (!is_settled(type) && !complete(type, type_of(made.element, made.extents))) {
            if (outermost_) open_.erase(name);
            scope.set(name, std::move(type));
        }
        scope.hold(name, std::move(made));
    }

    template <class Extents>
    static onnx::TypeProto type_of(std::int32_t element, const Extents& extents) {
        onnx::TypeProto type;
        type.mutable_tensor_type()->set_elem_type(element);
        type.mutable_tensor_type()->mutable_shape();
        for (const auto extent : extents)
            type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
        return type;
    }

    folded evaluated(const onnx::NodeProto& node, const type_scope& scope) const {
        fold_node n{.proto = node, .opset = version_of("")};
        for (const auto& input : node.input()) {
            n.inputs.push_back(input.empty() ? nullptr : scope.held(input));
            n.read.push_back(input.empty() ? nullptr : scope.type(input));
        }
        for (const auto& output : node.output()) {
            const auto* type = output.empty() ? nullptr : scope.type(output);
            const auto extents = type == nullptr ? std::nullopt : known_extents(*type);
            n.extents.push_back(extents.value_or(held_extents{}));
            n.has_extents.push_back(extents.has_value());
        }
        return fold(n);
    }

    int version_of(const std::string& domain) const {
        const auto found = versions_.find(domain);
        return found == versions_.end() ? 0 : found->second;
    }

    /// By the rule of the op; `problem` is what the rule says where it fails.
    std::vector<onnx::TypeProto> inferred(const onnx::NodeProto& node, const type_scope& scope,
                                          std::string& problem, folded& numbers) {
        const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
        if (domain.empty() && node.op_type() == "If") return branches(node, scope, numbers);
        if (domain.empty() && node.op_type() == "Loop") return loop(node, scope);
        rule_context context(node, scope, [&](const auto& body, const auto& given) {
            type_scope inside(&scope);
            return outputs_of(body, inside, given);
        });
        try {
            const auto function = functions_.find(domain + ":" + node.op_type());
            const auto* schema = rules_.GetSchema(node.op_type(), version_of(domain), domain);
            if (function != functions_.end())
                onnx::shape_inference::InferShapeForFunctionNode(*function->second, versions_, &rules_,
                                                                 context, {}, functions_);
            else if (schema == nullptr)
                problem = "no rule is known for the op " + op_name(node);
            else if (schema->has_type_and_shape_inference_function())
                schema->GetTypeAndShapeInferenceFunction()(context);
            else if (schema->HasFunction())
                onnx::shape_inference::InferShapeForFunctionNode(*schema->GetFunction(), &rules_, context);
        } catch (const std::bad_alloc&) {
            throw;
        } catch (const std::exception& e) {
            problem = said(e);
            for (auto& type : context.outputs()) // what a rule began is no shape
                if (type.has_tensor_type()) type.mutable_tensor_type()->clear_shape();
        }
        return std::move(context.outputs());
    }

    /// The library's own words, without its tags.
    static std::string said(const std::exception& e) {
        std::string text = e.what();
        while (text.starts_with('['))
            text.erase(0, std::min(text.find_first_not_of(' ', std::min(text.find(']'), text.size() - 1) + 1),
                                   text.size()));
        return text.substr(0, std::min(text.find('\n'), std::size_t{200}));
    }

    /// `second` is what input 1 holds, if that is known.
    std::vector<onnx::TypeProto> outputs_of(const onnx::GraphProto& body, type_scope& inside,
                                            const std::vector<const onnx::TypeProto*>& given,
                                            const held_tensor* second = nullptr) {
        const bool was = std::exchange(outermost_, false);
        graph(body, inside, given, second);
        outermost_ = was;
        std::vector<onnx::TypeProto> made;
        for (const auto& output : body.output()) {
            const auto* type = inside.type(output.name());
            made.push_back(type == nullptr ? output.type() : *type);
        }
        return made;
    }

    /// Of the branch that is taken, if that is known; otherwise what holds for both.
    std::vector<onnx::TypeProto> branches(const onnx::NodeProto& node, const type_scope& scope,
                                          folded& numbers) {
        const auto* condition = node.input_size() > 0 ? held_one(scope, node.input(0)) : nullptr;
        const bool known = condition != nullptr;
        std::vector<onnx::TypeProto> made;
        for (const bool yes : {true, false}) {
            const auto* branch = attribute(node, yes ? "then_branch" : "else_branch");
            if (branch == nullptr || (known && (condition->numbers[0].i != 0) != yes)) continue;
            type_scope inside(&scope);
            auto types = outputs_of(branch->g(), inside, {});
            types.resize(static_cast<std::size_t>(node.output_size()));
            for (std::size_t k = 0; k < made.size(); ++k) restrict(made[k], types[k]);
            if (made.empty()) made = std::move(types);
            if (!known) continue;
            for (const auto& output : branch->g().output()) {
                const auto* found = inside.held(output.name());
                numbers.push_back(found == nullptr ? std::nullopt : std::optional(*found));
            }
        }
        made.resize(static_cast<std::size_t>(node.output_size()));
        return made;
    }

    /// A state keeps its shape if an iteration that begins with this shape ends with it.
    std::vector<onnx::TypeProto> loop(const onnx::NodeProto& node, const type_scope& scope) {
        const auto count = static_cast<std::size_t>(node.output_size());
        const auto* body = attribute(node, "body");
        if (body == nullptr || node.input_size() < 2) return std::vector<onnx::TypeProto>(count);
        const onnx::TypeProto iteration = type_of(onnx::TensorProto::INT64, held_extents{}),
                              condition = type_of(onnx::TensorProto::BOOL, held_extents{});
        std::vector<onnx::TypeProto> states;
        for (int k = 2; k < node.input_size(); ++k) {
            const auto* type = scope.type(node.input(k));
            states.push_back(type == nullptr ? onnx::TypeProto() : *type);
        }
        // It goes on for as long as it may where the condition is true at first and stays so.
        const auto *most = held_one(scope, node.input(0)), *first = held_one(scope, node.input(1));
        held_tensor yes{.element = onnx::TensorProto::BOOL, .numbers = {held_number::of(1)}};
        bool goes_on = node.input(1).empty() || (first != nullptr && first->numbers[0].i != 0);
        std::vector<onnx::TypeProto> made;
        constexpr int most_rounds = 6; // each forgets more of what changes, and the last all of it
        for (int round = 1; round <= most_rounds; ++round) {
            std::vector<const onnx::TypeProto*> given{&iteration, &condition};
            for (auto& state : states) given.push_back(&state);
            type_scope inside(&scope);
            made = outputs_of(body->g(), inside, given, goes_on ? &yes : nullptr);
            const auto* next = made.empty() ? nullptr : held_one(inside, body->g().output(0).name());
            goes_on = goes_on && next != nullptr && next->numbers[0].i != 0;
            bool changed = false;
            for (std::size_t k = 0; k < states.size() && k + 1 < made.size(); ++k) {
                const std::string before = states[k].SerializeAsString();
                restrict(states[k], made[k + 1]);
                if (states[k].has_tensor_type() && before != states[k].SerializeAsString() && round > 2)
                    states[k].mutable_tensor_type()->clear_shape();
                changed |= before != states[k].SerializeAsString();
            }
            if (!changed) break;
            if (round == most_rounds) return std::vector<onnx::TypeProto>(count);
        }
        const auto collected = [&](onnx::TypeProto type) {
            if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return type;
            onnx::TensorShapeProto shape;
            auto& length = *shape.add_dim();
            if (goes_on && most != nullptr)
                length.set_dim_value(std::max<std::int64_t>(most->numbers[0].i, 0));
            for (const auto& dim : type.tensor_type().shape().dim()) *shape.add_dim() = dim;
            *type.mutable_tensor_type()->mutable_shape() = shape;
            return type;
        };
        for (std::size_t k = states.size() + 1; k < made.size(); ++k) states.push_back(collected(made[k]));
        states.resize(count);
        return states;
    }

    /// A single element that is known; nullptr: there is none.
    static const held_tensor* held_one(const type_scope& scope, const std::string& name) {
        const auto* found = name.empty() ? nullptr : scope.held(name);
        return found != nullptr && found->numbers.size() == 1 && found->numbers[0].known ? found : nullptr;
    }

    stated_extents& stated_;
    shape_rules rules_;
    std::unordered_map<std::string, int> versions_;
    onnx::shape_inference::ModelLocalFunctionsMap functions_;
    type_scope scope_;
    std::unordered_map<std::string, std::string> open_;
    std::vector<std::string> notes_;
    std::unordered_set<std::string> noted_;
    bool outermost_ = true; ///< the nodes are those of the graph itself
};

} // namespace echo::format
