// SPDX-License-Identifier: BSL-1.0
/// @file
/// `inline_functions`: the functions of a model as nodes of its graph, so that they are planned like all others.
/// (onnxruntime inlines them too, but appends their nodes: in its order no plan would hold.) Compiled into model.cpp
/// alone.
#pragma once

#include "onnx/fresh_names.hpp"
#include "onnx/node_proto.hpp"
#include "onnx/op_table.hpp"

#include <echo/error.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace echo::format {

struct inlined {
    /// By the name of a node that called a function: the name of the first node that stands in its place.
    std::unordered_map<std::string, std::string> first_node{};
};

namespace detail {

/// Messages in a field that the installed library may not know yet.
template <class Message>
std::vector<Message> later_messages(const google::protobuf::Message& of, int field) {
    std::vector<Message> found;
    const auto& unknown = of.GetReflection()->GetUnknownFields(of);
    for (int i = 0; i < unknown.field_count(); ++i)
        if (unknown.field(i).number() == field &&
            unknown.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
            if (Message one; one.ParseFromString(unknown.field(i).length_delimited()))
                found.push_back(std::move(one));
    return found;
}
inline std::string later_text(const google::protobuf::Message& of, int field) {
    const auto& unknown = of.GetReflection()->GetUnknownFields(of);
    for (int i = 0; i < unknown.field_count(); ++i)
        if (unknown.field(i).number() == field &&
            unknown.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
            return unknown.field(i).length_delimited();
    return {};
}

/// What tells functions of one name apart.
template <class Message>
std::string overload_of(const Message& of) {
    constexpr int field = std::is_same_v<Message, onnx::NodeProto> ? 8 : 13;
    if constexpr (requires { of.overload(); })
        return of.overload();
    else
        return later_text(of, field);
}

/// Attributes that a function gives a value where its caller does not.
template <class Function>
std::vector<onnx::AttributeProto> defaults_of(const Function& f) {
    constexpr int field = 11;
    if constexpr (requires { f.attribute_proto(); })
        return {f.attribute_proto().begin(), f.attribute_proto().end()};
    else
        return later_messages<onnx::AttributeProto>(f, field);
}

inline std::string version_key(const std::string& domain) {
    return domain == "ai.onnx" ? std::string() : domain;
}

} // namespace detail

class function_inliner {
public:
    explicit function_inliner(onnx::ModelProto& model) : model_(model), names_(model.graph()) {
        for (const auto& import : model.opset_import())
            versions_[detail::version_key(import.domain())] = import.version();
        for (const auto& f : model.functions()) own_domains_.insert(detail::version_key(f.domain()));
        for (const auto& f : model.functions()) {
            const std::string name = key(f.domain(), f.name(), detail::overload_of(f));
            functions_[name] = fits(f) ? &f : nullptr;
            if (functions_[name] == nullptr) continue;
            for (const auto& import : f.opset_import())
                if (versions_.emplace(detail::version_key(import.domain()), import.version()).second)
                    *model.add_opset_import() = import;
        }
    }

    /// Errors: a function calls itself; the graph would have too many nodes.
    inlined run() {
        check_size();
        onnx::GraphProto& graph = *model_.mutable_graph();
        std::vector<onnx::NodeProto> nodes;
        for (auto& node : *graph.mutable_node()) place(std::move(node), nodes);
        graph.clear_node();
        for (auto& node : nodes) *graph.add_node() = std::move(node);
        if (!left_) model_.clear_functions();
        return std::move(result_);
    }

private:
    using name_map = std::unordered_map<std::string, std::string>;
    using attribute_map = std::unordered_map<std::string, onnx::AttributeProto>;

    static std::string key(const std::string& domain, const std::string& name, const std::string& overload) {
        return detail::version_key(domain) + '\0' + name + '\0' + overload;
    }
    /// Whether a function's ops are the same in the versions that the model asks for. A domain of functions has no ops.
    bool fits(const onnx::FunctionProto& f) const {
        return std::ranges::all_of(f.opset_import(), [&](const auto& import) {
            const std::string domain = detail::version_key(import.domain());
            const auto found = versions_.find(domain);
            return found == versions_.end() || found->second == import.version() ||
                   (!domain.empty() && own_domains_.contains(domain)) ||
                   same_ops(f.node(), domain, import.version(), found->second);
        });
    }
    template <class Nodes>
    static bool same_ops(const Nodes& nodes, const std::string& domain, std::int64_t one,
                         std::int64_t other) {
        const auto newest = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().find(domain);
        if (newest == onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().end() ||
            std::max(one, other) > newest->second.second)
            return false;
        return std::ranges::all_of(nodes, [&](const onnx::NodeProto& node) {
            bool same = detail::version_key(node.domain()) != domain ||
                        onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(one), domain) ==
                            onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(other), domain);
            each_body(node, [&](const onnx::GraphProto& body) {
                same = same && same_ops(body.node(), domain, one, other);
            });
            return same;
        });
    }
    /// nullptr: none, or one that stays as it is.
    const onnx::FunctionProto* called_by(const onnx::NodeProto& node) const {
        const auto found = functions_.find(key(node.domain(), node.op_type(), detail::overload_of(node)));
        return found == functions_.end() ? nullptr : found->second;
    }

    /// How many nodes there will be in place of one, and how deep functions call one another.
    struct extent {
        std::uint64_t nodes = 0;
        unsigned depth = 0;
        void add(const extent& other) {
            nodes = std::min(nodes + other.nodes, most_nodes + 1);
            depth = std::max(depth, other.depth);
        }
    };
    extent extent_of(const onnx::NodeProto& node, unsigned around) {
        extent all{1, 0};
        each_body(std::as_const(node), [&](const onnx::GraphProto& body) {
            for (const auto& inner : body.node()) all.add(extent_of(inner, around));
        });
        const auto* const f = called_by(node);
        if (f == nullptr) return all;
        const auto [known, is_new] = extents_.try_emplace(f);
        if (!is_new && known->second.nodes == 0)
            throw error(shown(node, 0), "function", "'" + f->name() + "' calls itself",
                        "export the model again");
        if (is_new) {
            extent inside{1, 0};
            if (around < most_depth)
                for (const auto& inner : f->node()) inside.add(extent_of(inner, around + 1));
            ++inside.depth;
            extents_[f] = inside;
        }
        all.add(extents_[f]);
        return all;
    }
    void check_size() {
        extent all;
        for (const auto& node : model_.graph().node()) all.add(extent_of(node, 0));
        if (all.nodes > most_nodes || all.depth > most_depth)
            throw error({}, "functions",
                        all.nodes > most_nodes
                            ? "stand for more than " + std::to_string(most_nodes) + " nodes"
                            : "call one another more than " + std::to_string(most_depth) + " deep",
                        "export the model with fewer of them");
    }

    /// Appends a node, or what stands in its place.
    void place(onnx::NodeProto node, std::vector<onnx::NodeProto>& to) {
        each_body(node, [&](onnx::GraphProto& body) {
            std::vector<onnx::NodeProto> nodes;
            for (auto& inner : *body.mutable_node()) place(std::move(inner), nodes);
            body.clear_node();
            for (auto& inner : nodes) *body.add_node() = std::move(inner);
        });
        const auto* const f = called_by(node);
        if (f == nullptr) {
            left_ |= functions_.contains(key(node.domain(), node.op_type(), detail::overload_of(node)));
            to.push_back(std::move(node));
            return;
        }
        const std::size_t first = to.size();
        expand(node, *f, to);
        if (!node.name().empty() && to.size() > first)
            result_.first_node.emplace(node.name(), to[first].name());
    }

    void expand(const onnx::NodeProto& call, const onnx::FunctionProto& f, std::vector<onnx::NodeProto>& to) {
        const std::string scope = scope_of(call);
        name_map names{{"", ""}};
        attribute_map attributes;
        for (const auto& one : detail::defaults_of(f)) attributes[one.name()] = one;
        for (const auto& one : call.attribute()) attributes[one.name()] = one;
        for (int k = 0; k < f.input_size(); ++k)
            names[f.input(k)] = k < call.input_size() ? call.input(k) : "";
        std::vector<std::pair<std::string, std::string>>
            passed; // outputs that no node of the function makes by itself
        for (int k = 0; k < f.output_size() && k < call.output_size(); ++k) {
            if (call.output(k).empty()) continue;
            if (!names.emplace(f.output(k), call.output(k)).second)
                passed.emplace_back(f.output(k), call.output(k));
        }
        for (const auto& inner : f.node()) {
            onnx::NodeProto node = inner;
            node.set_name(names_.made(scope + "/" + (inner.name().empty() ? inner.op_type() : inner.name())));
            take_attributes(node, attributes);
            rename(node, names, scope);
            place(std::move(node), to);
        }
        for (const auto& [from, output] : passed) {
            onnx::NodeProto node;
            node.set_op_type("Identity");
            node.set_name(names_.made(scope + "/Identity"));
            node.add_input(names.at(from));
            node.add_output(output);
            to.push_back(std::move(node));
        }
    }

    /// Nodes of a gradient are told by their names: so are those of a function that is named as one.
    static std::string scope_of(const onnx::NodeProto& call) {
        const std::string name = shown(call, 0);
        const bool told = name.ends_with("_Grad") || name.find("_Grad/") != std::string::npos;
        return is_onnx_gradient_op(call.op_type()) && !told ? name + "_Grad" : name;
    }

    static void take_attributes(onnx::NodeProto& node, const attribute_map& given) {
        std::vector<onnx::AttributeProto> kept;
        for (auto& one : *node.mutable_attribute()) {
            if (!one.ref_attr_name().empty()) {
                const auto found = given.find(one.ref_attr_name());
                if (found == given.end()) continue; // the op has a default of its own
                const std::string name = one.name();
                one = found->second;
                one.set_name(name);
            }
            kept.push_back(std::move(one));
        }
        node.clear_attribute();
        for (auto& one : kept) *node.add_attribute() = std::move(one);
        each_body(node, [&](onnx::GraphProto& body) {
            for (auto& inner : *body.mutable_node()) take_attributes(inner, given);
        });
    }

    /// Gives what a node reads and makes the names of the caller, and new ones to what only the function has.
    void rename(onnx::NodeProto& node, name_map& names, const std::string& scope) {
        const auto reads = [](const name_map& known, const std::string& name) {
            const auto found = known.find(name);
            return found == known.end() ? name : found->second;
        };
        for (auto& input : *node.mutable_input()) input = reads(names, input);
        each_body(node, [&](onnx::GraphProto& body) {
            name_map inside = names;
            const auto define = [&](const std::string& name) {
                inside[name] = name.empty() ? name : names_.made(scope + "/" + name);
            };
            std::unordered_set<std::string> given; // an initializer may be the default of one
            for (const auto& value : body.input()) define(value.name()), given.insert(value.name());
            for (const auto& t : body.initializer())
                if (!given.contains(t.name())) define(t.name());
            for (const auto& t : body.sparse_initializer())
                if (!given.contains(t.values().name())) define(t.values().name());
            for (const auto& inner : body.node())
                for (const auto& output : inner.output()) define(output);
            for (auto& inner : *body.mutable_node()) {
                if (!inner.name().empty()) inner.set_name(names_.made(scope + "/" + inner.name()));
                rename(inner, inside, scope);
            }
            for (auto& t : *body.mutable_initializer()) t.set_name(reads(inside, t.name()));
            for (auto& t : *body.mutable_sparse_initializer())
                t.mutable_values()->set_name(reads(inside, t.values().name()));
            for (auto* values : {body.mutable_input(), body.mutable_output(), body.mutable_value_info()})
                for (auto& value : *values) value.set_name(reads(inside, value.name()));
        });
        for (auto& output : *node.mutable_output()) {
            if (!names.contains(output)) names[output] = names_.made(scope + "/" + output);
            output = names[output];
        }
    }

    static constexpr std::uint64_t most_nodes = std::uint64_t{1} << 22;
    static constexpr unsigned most_depth = 200;

    onnx::ModelProto& model_;
    fresh_names names_;
    std::unordered_map<std::string, const onnx::FunctionProto*> functions_; ///< nullptr: it stays as it is
    std::unordered_set<std::string> own_domains_;
    std::unordered_map<std::string, std::int64_t> versions_;
    std::unordered_map<const onnx::FunctionProto*, extent> extents_; ///< without nodes: being counted
    inlined result_;
    bool left_ = false; ///< a call stays
};

/// Errors: as `function_inliner::run`.
inline inlined inline_functions(onnx::ModelProto& model) {
    return model.functions_size() == 0 ? inlined{} : function_inliner(model).run();
}

} // namespace echo::format
