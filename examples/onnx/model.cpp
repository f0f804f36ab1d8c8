// SPDX-License-Identifier: BSL-1.0
/// @file
/// `onnx_model` by the ONNX library. The one unit that sees the headers of ONNX and of protobuf.

#include "format/graph_assembler.hpp"
#include "onnx/bodies.hpp"
#include "onnx/flops.hpp"
#include "onnx/model.hpp"
#include "onnx/op_table.hpp"
#include "onnx/value_types.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

namespace echo::format {
namespace {

/// Where a value comes from.
struct place {
    std::uint32_t node = 0, output = 0;
};

/// A node of the file as the names of its values; a position that the op leaves out is empty.
struct named_node {
    int position = -1; ///< among the nodes of the model; negative: an input or an initializer
    std::vector<std::string> inputs{}, outputs{};
};

std::string op_name(const onnx::NodeProto& node) {
    const bool own = node.domain().empty() || node.domain() == "ai.onnx";
    return own ? node.op_type() : node.domain() + "::" + node.op_type();
}

std::string shown(const onnx::NodeProto& node, int position) {
    if (!node.name().empty()) return node.name();
    for (const auto& output : node.output())
        if (!output.empty()) return output;
    return node.op_type() + " #" + std::to_string(position);
}

const onnx::AttributeProto* attribute(const onnx::NodeProto& node, std::string_view name) {
    for (const auto& one : node.attribute())
        if (one.name() == name) return &one;
    return nullptr;
}

bool is_false(const onnx::TensorProto& t) {
    if (t.data_type() != onnx::TensorProto::BOOL || t.data_location() == onnx::TensorProto::EXTERNAL)
        return false;
    if (!t.raw_data().empty()) return t.raw_data()[0] == 0;
    return t.int32_data_size() > 0 && t.int32_data(0) == 0;
}

/// Batch normalisation in training: onnxruntime writes outputs 1 and 2, the running statistics, over inputs 3 and 4, so that
/// they move each time that it runs.
bool moves_statistics(const onnx::NodeProto& node) {
    if (op_name(node) == "com.microsoft::BatchNormInternal") return true;
    const auto* const mode = attribute(node, "training_mode");
    return op_name(node) == "BatchNormalization" &&
           ((mode != nullptr && mode->i() != 0) || node.output_size() > 1);
}

void set_float(onnx::NodeProto& node, const std::string& name, float value) {
    for (auto& one : *node.mutable_attribute())
        if (one.name() == name) return one.set_f(value);
    auto& one = *node.add_attribute();
    one.set_name(name);
    one.set_type(onnx::AttributeProto::FLOAT);
    one.set_f(value);
}

bool ends_as_gradient(const std::string& value) { return value.ends_with("_grad"); }

bool parses(onnx::ModelProto& model, std::string_view bytes) {
    const google::protobuf::LogSilencer silence; // it would print what is missing
    google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
    google::protobuf::io::CodedInputStream coded(&stream);
    coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
    return model.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

/// Parses a file. Errors: it is no ONNX model; it is large, and takes many times its size in memory.
void parse(onnx::ModelProto& model, std::string_view bytes) {
    if (bytes.size() > std::size_t{std::numeric_limits<int>::max()})
        throw error({}, {}, "has more than 2 GB, which no ONNX file may",
                    "keep the weights as external data");
    // An empty message takes two bytes in the file and a hundred times that here.
    if (bytes.size() > std::size_t{16} << 20)
        guarded(
            "model",
            [&] {
                onnx::ModelProto trial;
                return std::string(parses(trial, bytes) ? "whole" : "broken");
            },
            (std::size_t{1} << 30) + 4 * bytes.size());
    if (!parses(model, bytes) || !model.has_graph() ||
        model.graph().node_size() + model.graph().input_size() == 0)
        throw error({}, {}, "is no ONNX model, or not a whole one", "export it again, or copy it whole");
    if (opset_of(model) < 1)
        throw error({}, "opset_import", "names no version of ONNX's ops", "export the model again");
}

/// Puts the drafts of a model together.
class model_reader {
public:
    model_reader(const onnx::ModelProto& model, const onnx_options& asked)
        : model_(model), graph_(model.graph()), asked_(asked), assembler_({}) {
        for (const auto& t : graph_.initializer()) constants_.emplace(t.name(), &t);
        for (const auto& f : model.functions()) functions_.insert(f.domain() + "::" + f.name());
        check_domains();
        check_order();
        types_.emplace(model, asked.dims);
        find_storage();
        find_gradient();
        add_inputs();
        for (int i = 0; i < graph_.node_size(); ++i) add_node(i);
        finish();
    }

    file_graph graph;
    std::vector<named_node> nodes;
    std::vector<std::string> notes;
    bool trains = false;

private:
    /// The version of each node's ops is stated.
    void check_domains() const {
        std::unordered_set<std::string> imported{"", "ai.onnx"};
        for (const auto& import : model_.opset_import()) imported.insert(import.domain());
        for (int i = 0; i < graph_.node_size(); ++i)
            if (!imported.contains(graph_.node(i).domain()))
                throw error(shown(graph_.node(i), i), "domain",
                            "the model imports no ops of '" + graph_.node(i).domain() + "'",
                            "add it to opset_import");
    }

    /// Every value is made once, before it is read. Nothing else is sound in the library's eyes, either.
    void check_order() {
        std::unordered_map<std::string, int> made; // by which node; -1: given
        const auto make = [&](const std::string& value, const std::string& by, int node) {
            if (!made.emplace(value, node).second)
                throw error(by, "output", "'" + value + "' stands twice",
                            "give each value a name of its own");
        };
        for (const auto& input : graph_.input()) make(input.name(), input.name(), -1);
        std::unordered_set<std::string> weights;
        const auto give = [&](const std::string& name) {
            if (name.empty()) throw error({}, "initializer", "one has no name", "name it");
            if (!weights.insert(name).second)
                throw error(name, "initializer", "stands twice", "give each a name of its own");
            made.emplace(name, -1);
        };
        for (const auto& t : graph_.initializer()) give(t.name());
        for (const auto& t : graph_.sparse_initializer()) give(t.values().name());
        for (int i = 0; i < graph_.node_size(); ++i)
            for (const auto& output : graph_.node(i).output())
                if (!output.empty()) make(output, shown(graph_.node(i), i), i);
        const auto check = [&](const std::string& value, int i) {
            const auto found = made.find(value);
            const std::string by = shown(graph_.node(i), i);
            if (found == made.end())
                throw error(by, "input", "reads '" + value + "', which nothing makes",
                            "make it an input, or export the model again");
            if (found->second >= i)
                throw error(by, "input",
                            "reads '" + value + "' of node '" +
                                shown(graph_.node(found->second), found->second) +
                                "', which does not stand earlier",
                            "put nodes in execution order; a graph has no cycles");
        };
        for (int i = 0; i < graph_.node_size(); ++i) {
            for (const auto& input : graph_.node(i).input())
                if (!input.empty()) check(input, i);
            each_capture(graph_.node(i), [&](const std::string& name) { check(name, i); });
        }
        for (const auto& output : graph_.output())
            if (!made.contains(output.name()))
                throw error(output.name(), "output", "nothing makes this output of the graph",
                            "make it, or drop it from the outputs");
    }

    const onnx_op* known_op(const onnx::NodeProto& node) const {
        return functions_.contains(node.domain() + "::" + node.op_type()) ? nullptr
                                                                          : find_onnx_op(op_name(node));
    }

    /// For each value the one on whose storage it lies, who reads that last, and whether it is resident.
    void find_storage() {
        for (const auto& input : graph_.input()) resident_.insert(input.name());
        for (const auto& t : graph_.initializer()) resident_.insert(t.name());
        for (const auto& t : graph_.sparse_initializer()) resident_.insert(t.values().name());
        for (int i = 0; i < graph_.node_size(); ++i) {
            const auto& node = graph_.node(i);
            if (is_constant(node))
                for (const auto& output : node.output()) resident_.insert(output);
            if (const auto* op = known_op(node); op != nullptr && op->kind == op_kind::view &&
                                                 node.output_size() > 0 && node.input_size() > 0 &&
                                                 same_bytes(node.input(0), node.output(0)))
                base_[node.output(0)] = base(node.input(0));
            for (const auto& input : node.input())
                if (!input.empty()) last_read_[base(input)] = i;
            each_capture(node, [&](const std::string& name) { last_read_[base(name)] = i; });
            for (const auto& tensor : node.attribute())
                if (is_constant(node) && node.output_size() > 0 && tensor.has_t())
                    constants_.emplace(node.output(0), &tensor.t());
        }
        for (const auto& output : graph_.output()) last_read_[base(output.name())] = graph_.node_size();
        find_updates();
    }

    /// Which parameters an update writes over, in place where nobody reads the old one later. What else an update reads
    /// and finds resident, it may write as well: those values are told apart, since nobody may read them again behind it.
    void find_updates() {
        for (int i = 0; i < graph_.node_size(); ++i) {
            const auto& node = graph_.node(i);
            if (!is_onnx_update_op(op_name(node))) continue;
            std::set<int> in_place;
            for (const auto& [output, input] : updated(node)) {
                if (input >= node.input_size() || output >= node.output_size()) continue;
                const std::string &was = node.input(input), &is = node.output(output);
                if (was.empty() || is.empty() || !is_resident(was) || !same_bytes(was, is)) continue;
                const auto last = last_read_.find(base(was));
                if (last != last_read_.end() && last->second != i)
                    continue; // somebody still reads the old one
                if (!taken_.insert(base(was)).second) continue;
                in_place_[i].emplace_back(output, input);
                in_place.insert(input);
            }
            for (int k = 0; k < node.input_size(); ++k)
                if (!node.input(k).empty() && is_resident(node.input(k)) && !in_place.contains(k))
                    written_.emplace(base(node.input(k)), i);
        }
    }

    /// Whether node `i` reads what an update may write over without saying so.
    bool reads_written(const onnx::NodeProto& node, int i) const {
        const auto writes = [&](const std::string& value) {
            const auto [first, last] = written_.equal_range(base(value));
            return std::any_of(first, last, [&](const auto& by) { return by.second != i; });
        };
        bool any = std::any_of(node.input().begin(), node.input().end(), writes);
        each_capture(node, [&](const std::string& value) { any = any || writes(value); });
        return any;
    }

    static bool is_constant(const onnx::NodeProto& node) {
        return op_name(node) == "Constant" && node.input_size() == 0;
    }
    const std::string& base(const std::string& value) const {
        const auto found = base_.find(value);
        return found == base_.end() ? value : found->second;
    }
    bool is_resident(const std::string& value) const { return resident_.contains(base(value)); }
    bool same_bytes(const std::string& a, const std::string& b) const {
        const value_type &x = (*types_)[a], &y = (*types_)[b];
        if (!x.problem.empty() || !y.problem.empty() || x.element != y.element) return false;
        return x.extents == y.extents || elements_of(x.extents) == elements_of(y.extents);
    }

    /// The phase of every node. ONNX states none, so that names tell, and what is computed from gradients is gradient.
    void find_gradient() {
        std::unordered_map<std::string, phase> of;
        const std::string& first = asked_.first_backward;
        bool found = first.empty(), begun = false;
        for (const auto& input : graph_.input()) found |= input.name() == first;
        for (const auto& t : graph_.initializer()) found |= t.name() == first;
        if (!first.empty() && found) of[first] = phase::backward;
        for (int i = 0; i < graph_.node_size(); ++i) {
            const auto& node = graph_.node(i);
            phase mine = phase::forward;
            const auto at_least = [&](phase p) { mine = std::max(mine, p); };
            const auto reads = [&](const std::string& value) {
                if (ends_as_gradient(value)) at_least(phase::backward);
                if (const auto known = of.find(value); known != of.end()) at_least(known->second);
            };
            if (is_onnx_gradient_op(node.op_type()) || node.name().find("_Grad/") != std::string::npos ||
                node.name().ends_with("_Grad"))
                at_least(phase::backward);
            for (const auto& input : node.input()) reads(input);
            each_capture(node, reads);
            if (!first.empty()) begun |= node.name() == first;
            for (const auto& output : node.output()) {
                if (ends_as_gradient(output)) at_least(phase::backward);
                if (!first.empty()) begun |= output == first;
            }
            if (begun) at_least(phase::backward);
            if (is_onnx_update_op(op_name(node))) at_least(phase::update);
            if (is_constant(node)) mine = phase::input;
            for (const auto& output : node.output())
                if (mine != phase::forward && mine != phase::input) of[output] = mine;
            phases_.push_back(mine);
            trains |= mine == phase::backward || mine == phase::update;
        }
        if (!found && !begun)
            throw error({}, "--first-backward " + first, "is no node and no value of the model",
                        "name the node, or the value, where the gradient begins");
    }

    void add_inputs() {
        std::unordered_set<std::string> seen;
        const auto add = [&](const std::string& name, const char* op) {
            if (!seen.insert(name).second) return;
            draft_.clear();
            draft_.name = name;
            draft_.op = op;
            draft_.phase = phase::input;
            add_output(name, name, true);
            nodes.push_back({.outputs = {name}});
            accept();
        };
        for (const auto& input : graph_.input())
            add(input.name(), constants_.contains(input.name()) ? "initializer" : "input");
        for (const auto& t : graph_.initializer()) add(t.name(), "initializer");
        for (const auto& t : graph_.sparse_initializer()) add(t.values().name(), "initializer");
    }

    /// A further output of the draft. Errors: nobody knows its size; but what nothing reads may be of any size.
    void add_output(const std::string& name, const std::string& node, bool is_read) {
        const value_type& type = (*types_)[name];
        output_draft out{.first_extent = draft_.extents.size()};
        const element_type element = onnx_element_type(type.element);
        if (!type.problem.empty() && !is_read) {
            out.bytes = 0;
            notes.push_back("nothing reads '" + name + "', whose size is not known: it counts as 0 bytes");
        } else if (!type.problem.empty()) {
            throw error(node, "output '" + name + "'", type.problem, type.advice);
        } else if (element.bits == 0) {
            throw error(node, "output '" + name + "'",
                        type.element == onnx::TensorProto::STRING ? "is of strings, whose size is not known"
                                                                  : "is of an element type that is not known",
                        "plan a graph of numbers");
        } else {
            out.has_shape = true;
            out.type = element.type;
            out.rank = type.extents.size();
            draft_.extents.insert(draft_.extents.end(), type.extents.begin(), type.extents.end());
            if (element.type == dtype::other) out.bytes = bytes_of(type, element, node, name);
        }
        draft_.outputs.push_back(out);
    }

    static std::uint64_t bytes_of(const value_type& type, element_type element, const std::string& node,
                                  const std::string& name) {
        try {
            const auto bits = checked_multiply(element_count(shape(type.extents)), element.bits);
            if (!bits || *bits > std::numeric_limits<std::uint64_t>::max() - 7)
                throw error({}, "shape", "shape × dtype overflows 64 bits", "check the extents");
            return (*bits + 7) / 8;
        } catch (const error& e) {
            throw error(node, "output '" + name + "'", e.problem(), e.advice());
        }
    }

    void accept() {
        const auto index = static_cast<std::uint32_t>(assembler_.size());
        std::uint32_t k = 0;
        for (const auto& output : nodes.back().outputs) values_[output] = {index, k++};
        assembler_.add(draft_);
    }

    bool states_seed(const onnx::NodeProto& node) const { return attribute(node, "seed") != nullptr; }

    /// Whether a node of the Dropout family leaves all elements as they are.
    bool drops_nothing(const onnx::NodeProto& node) const {
        const auto type = std::string_view(node.op_type());
        const bool own = node.domain().empty() || node.domain() == "ai.onnx";
        const auto opset = opset_of(model_);
        if (own && opset < 7) {
            const auto* is_test = attribute(node, "is_test");
            return is_test != nullptr && is_test->i() != 0;
        }
        if (own && opset < 12) return true;
        if (type == "SoftmaxDropout") return false;
        const int mode = type == "BiasDropout" || type == "BitmaskBiasDropout" ? 4 : 2;
        if (node.input_size() <= mode || node.input(mode).empty()) return true;
        for (const auto& input : graph_.input()) // an initializer is only a default then
            if (input.name() == node.input(mode)) return false;
        const auto constant = constants_.find(node.input(mode));
        return constant != constants_.end() && is_false(*constant->second);
    }

    void add_facts(const onnx::NodeProto& node) {
        if (functions_.contains(node.domain() + "::" + node.op_type())) {
            draft_.kind = op_kind::heavy;
            draft_.rerun = rerun_kind::never;
            return;
        }
        if (is_constant(node)) return; // an input
        const onnx_op* op = known_op(node);
        if (op == nullptr) return; // the assembler lists it
        draft_.kind = op->kind;
        draft_.rerun = rerun_kind::pure;
        if (op->kind == op_kind::view && !draft_.outputs.empty() && !draft_.outputs[0].view_of)
            draft_.kind = op_kind::light; // of another size, which only a broken model has
        const bool random =
            op->rerun == onnx_rerun::random || (op->rerun == onnx_rerun::dropout && !drops_nothing(node));
        if (op->rerun == onnx_rerun::never || (random && !states_seed(node)))
            draft_.rerun = rerun_kind::never;
        else if (random)
            draft_.rerun = rerun_kind::seeded;
        if (random && !states_seed(node)) ++without_seed_;
        if (op->kind == op_kind::heavy) draft_.flops = flops(node);
    }

    /// A second run moves them once more, and its outputs would be other ones.
    bool hands_out_statistics(const onnx::NodeProto& node) const {
        if (!moves_statistics(node)) return false;
        for (int k = 1; k < std::min(3, node.output_size()); ++k)
            if (!node.output(k).empty() && last_read_.contains(base(node.output(k)))) return true;
        return false;
    }

    double flops(const onnx::NodeProto& node) const {
        onnx_shapes shapes;
        const auto add = [&](const auto& names, auto& to) {
            for (const auto& name : names) {
                const value_type& type = (*types_)[name];
                to.push_back(name.empty() || !type.problem.empty() ? nullptr : &type.extents);
            }
        };
        add(node.input(), shapes.inputs);
        add(node.output(), shapes.outputs);
        const auto* equation = attribute(node, "equation");
        const auto* transposed = attribute(node, "transA");
        const double found = onnx_flops(node.op_type(), shapes, equation == nullptr ? "" : equation->s(),
                                        transposed != nullptr && transposed->i() != 0);
        return found >= 0 && found < 1e300 ? found : 0;
    }

    /// Output 0 of a view lies on input 0; an element-wise op may take over an input that has its size.
    void add_storage(const onnx::NodeProto& node, int i, const std::vector<std::size_t>& position) {
        const onnx_op* op = known_op(node);
        if (op == nullptr || draft_.outputs.empty()) return;
        if (op->kind == op_kind::view) {
            if (base_.contains(node.output(0))) draft_.outputs[0].view_of = position[0];
        } else if (op->inplace == onnx_inplace::elementwise) {
            for (int k = 0; k < node.input_size(); ++k)
                if (!node.input(k).empty() && !is_resident(node.input(k)) &&
                    same_bytes(node.input(k), node.output(0))) {
                    draft_.outputs[0].inplace = position[static_cast<std::size_t>(k)];
                    break;
                }
        } else if (is_onnx_update_op(op_name(node))) {
            const auto found = in_place_.find(i);
            if (found == in_place_.end()) return;
            for (const auto& [output, input] : found->second)
                draft_.outputs[values_of(node, output)].inplace = position[static_cast<std::size_t>(input)];
        }
    }

    /// Which output is the new value of which input.
    static std::vector<std::pair<int, int>> updated(const onnx::NodeProto& node) {
        const std::string& type = node.op_type();
        if (type == "InPlaceAccumulator" || type == "ZeroGradient") return {{0, 0}};
        if (type == "InPlaceAccumulatorV2") return {{1, 0}};
        if (type == "AdamOptimizer") return {{0, 1}, {1, 4}, {2, 5}, {3, 2}, {4, 3}, {5, 6}};
        if (type == "SGDOptimizer") return {{0, 1}};
        // R, T, then as many parameters, gradients and states as there are tensors to update.
        const int states = type == "Adam" ? 2 : type == "Adagrad" || type == "Momentum" ? 1 : 0;
        if (states == 0 || (node.input_size() - 2) % (states + 2) != 0) return {};
        const int count = (node.input_size() - 2) / (states + 2);
        std::vector<std::pair<int, int>> pairs;
        for (int k = 0; k < count; ++k) {
            pairs.emplace_back(k, 2 + k);
            for (int s = 0; s < states; ++s) pairs.emplace_back(count * (s + 1) + k, 2 + count * (s + 2) + k);
        }
        return pairs;
    }

    /// The position of an output among those that the node names.
    static std::size_t values_of(const onnx::NodeProto& node, int output) {
        std::size_t before = 0;
        for (int k = 0; k < output; ++k) before += !node.output(k).empty();
        return before;
    }

    void add_node(int i) {
        const auto& node = graph_.node(i);
        const std::string name = shown(node, i);
        const auto index = static_cast<std::size_t>(i);
        if (node.op_type() == "Gradient" && node.domain().starts_with("ai.onnx"))
            throw error(name, "op", "Gradient stands for nodes that the file does not spell out",
                        "export the model with its gradient as nodes");
        draft_.clear();
        draft_.name = name;
        draft_.op = op_name(node);
        draft_.layer = layer_of(node.name());
        draft_.phase = phases_[index];
        named_node& named = nodes.emplace_back(named_node{.position = i});
        std::vector<std::size_t> position(static_cast<std::size_t>(node.input_size()), no_position);
        const auto read = [&](const std::string& value) {
            const place from = values_.at(value);
            draft_.inputs.push_back({from.node, from.output});
            named.inputs.push_back(value);
        };
        for (int k = 0; k < node.input_size(); ++k)
            if (!node.input(k).empty()) {
                position[static_cast<std::size_t>(k)] = draft_.inputs.size();
                read(node.input(k));
            }
        std::set<std::string> captured;
        each_capture(node, [&](const std::string& value) {
            if (captured.insert(value).second) read(value);
        });
        for (const auto& output : node.output())
            if (!output.empty()) {
                add_output(output, name, last_read_.contains(base(output)));
                named.outputs.push_back(output);
            }
        add_storage(node, i, position);
        add_facts(node);
        if (reads_written(node, i) || hands_out_statistics(node)) draft_.rerun = rerun_kind::never;
        accept();
    }

    /// `/encoder/layer.0/attention/MatMul` lies in `encoder/layer.0/attention`.
    static std::string layer_of(const std::string& name) {
        const auto slash = name.rfind('/');
        if (slash == std::string::npos) return {};
        const std::size_t first = name.starts_with("/");
        return slash > first ? name.substr(first, slash - first) : std::string();
    }

    void finish() {
        std::vector<edge_draft> results;
        for (const auto& output : graph_.output()) {
            const place from = values_.at(output.name());
            results.push_back({from.node, from.output});
        }
        assembler_.set_name(graph_.name());
        graph = assembler_.finish(results, {});
        if (!trains)
            notes.insert(notes.begin(),
                         "no gradient is computed: nothing is stashed or recomputed, and the arena is the "
                         "whole plan (where there is a gradient, name its start by --first-backward)");
        if (without_seed_ > 0)
            notes.push_back("random ops without a seed, which never run again: " +
                            std::to_string(without_seed_));
        if (opset_of(model_) > newest_opset())
            notes.push_back("opset " + std::to_string(opset_of(model_)) +
                            " is newer than the ONNX library, which knows " + std::to_string(newest_opset()) +
                            ": shapes of ops that changed since may be wrong");
        if (model_.training_info_size() > 0)
            notes.push_back("training_info is not read: its nodes are no part of the plan");
        if (!functions_.empty())
            notes.push_back("functions of the model are taken as single ops that never run again");
    }

    const onnx::ModelProto& model_;
    const onnx::GraphProto& graph_;
    const onnx_options& asked_;
    graph_assembler assembler_;
    std::optional<value_types> types_;
    node_draft draft_;
    std::vector<phase> phases_;
    std::unordered_map<std::string, place> values_;
    std::unordered_map<std::string, const onnx::TensorProto*> constants_;
    std::unordered_map<std::string, std::string> base_;
    std::unordered_map<std::string, int> last_read_; ///< by base; the number of nodes: an output of the graph
    std::unordered_set<std::string> resident_, functions_, taken_;
    std::unordered_map<int, std::vector<std::pair<int, int>>> in_place_; ///< of an update: output, input
    std::unordered_multimap<std::string, int> written_; ///< by base: the updates that may write over it
    std::size_t without_seed_ = 0;
};

/// Names that nothing has yet.
class fresh_names {
public:
    explicit fresh_names(const onnx::GraphProto& graph) { add(graph); }

    std::string again(const std::string& name) {
        std::string made = name + ".again";
        for (unsigned i = 2; !taken_.insert(made).second; ++i) made = name + ".again" + std::to_string(i);
        return made;
    }

private:
    void add(const onnx::GraphProto& graph) {
        for (const auto& value : graph.input()) taken_.insert(value.name());
        for (const auto& value : graph.initializer()) taken_.insert(value.name());
        for (const auto& value : graph.sparse_initializer()) taken_.insert(value.values().name());
        for (const auto& node : graph.node()) {
            taken_.insert(node.name());
            for (const auto& output : node.output()) taken_.insert(output);
            each_body(node, [&](const onnx::GraphProto& body) { add(body); });
        }
    }
    std::unordered_set<std::string> taken_;
};

template <class F>
void each_tensor(const onnx::GraphProto& graph, const F& f) {
    for (const auto& t : graph.initializer()) f(t);
    for (const auto& t : graph.sparse_initializer()) f(t.values()), f(t.indices());
    for (const auto& node : graph.node())
        for (const auto& a : node.attribute()) {
            if (a.has_t()) f(a.t());
            for (const auto& t : a.tensors()) f(t);
            if (a.has_sparse_tensor()) f(a.sparse_tensor().values()), f(a.sparse_tensor().indices());
            if (a.has_g()) each_tensor(a.g(), f);
            for (const auto& g : a.graphs()) each_tensor(g, f);
        }
}

} // namespace

struct onnx_model::contents {
    onnx::ModelProto model{};
    file_graph graph{};
    std::vector<named_node> nodes{};
    std::vector<std::string> notes{};
    bool trains = false;
};

onnx_model::onnx_model(std::string_view bytes, const onnx_options& asked) : c_(std::make_unique<contents>()) {
    parse(c_->model, bytes);
    model_reader reader(c_->model, asked);
    c_->graph = std::move(reader.graph);
    c_->nodes = std::move(reader.nodes);
    c_->notes = std::move(reader.notes);
    c_->trains = reader.trains;
}
onnx_model::onnx_model(onnx_model&&) noexcept = default;
onnx_model& onnx_model::operator=(onnx_model&&) noexcept = default;
onnx_model::~onnx_model() = default;

const file_graph& onnx_model::graph() const noexcept { return c_->graph; }
file_graph& onnx_model::graph() noexcept { return c_->graph; }
bool onnx_model::trains() const noexcept { return c_->trains; }
const std::vector<std::string>& onnx_model::notes() const noexcept { return c_->notes; }

bool onnx_model::has_external_data() const noexcept {
    bool any = false;
    each_tensor(c_->model.graph(),
                [&](const onnx::TensorProto& t) { any |= t.data_location() == onnx::TensorProto::EXTERNAL; });
    return any;
}

written_model onnx_model::write(const snapshot& s, const schedule& steps) const {
    if (c_->model.training_info_size() > 0)
        throw error({}, "training_info", "reads values that a plan may leave out",
                    "remove it, or make what it reads an output of the graph");
    const auto& original = c_->model.graph();
    // The first run keeps the name of a value; of an output of the graph, the last, since that is what is handed out.
    std::unordered_map<std::string, std::size_t> keeper;
    std::unordered_set<std::string> results;
    for (const auto& output : original.output()) results.insert(output.name());
    for (const auto t : steps.steps())
        for (const auto& value : c_->nodes[steps[t].node.index()].outputs)
            if (results.contains(value))
                keeper[value] = t.index();
            else
                keeper.emplace(value, t.index());

    onnx::ModelProto model = c_->model;
    auto& graph = *model.mutable_graph();
    graph.clear_node();
    std::unordered_map<std::string, const onnx::ValueInfoProto*> types;
    for (const auto& value : original.value_info()) types.emplace(value.name(), &value);
    for (const auto& value : original.output()) types.emplace(value.name(), &value);
    fresh_names names(original);
    std::vector<std::vector<std::string>> made(steps.size()); // names by step and output
    for (const auto t : steps.steps()) {
        const step_record& step = steps[t];
        const named_node& named = c_->nodes[step.node.index()];
        const std::string node_name = s.name(step.node);
        if (step.kind == step_kind::encode || step.fused)
            throw error(node_name, "plan", "no ONNX node encodes a value or runs inside another",
                        "plan without --fuse");
        for (const auto& value : named.outputs) {
            const bool keeps = keeper.at(value) == t.index();
            made[t.index()].push_back(keeps ? value : names.again(value));
            if (keeps) continue;
            if (const auto type = types.find(value); type != types.end()) {
                auto& copy = *graph.add_value_info();
                copy = *type->second;
                copy.set_name(made[t.index()].back());
            }
        }
        if (named.position < 0) continue;
        auto& node = *graph.add_node();
        node = original.node(named.position);
        if (step.kind == step_kind::recompute) {
            if (!node.name().empty()) node.set_name(names.again(node.name()));
            if (moves_statistics(node)) set_float(node, "momentum", 1.F); // they stay as they are
        }
        std::size_t k = 0;
        std::unordered_map<std::string, std::string> captured;
        const auto copies = steps.inputs(t);
        const auto copy_of = [&](std::size_t input) -> const std::string& {
            return made[copies[input].step.index()][copies[input].output];
        };
        for (auto& input : *node.mutable_input())
            if (!input.empty()) input = copy_of(k++);
        for (; k < named.inputs.size(); ++k) captured.emplace(named.inputs[k], copy_of(k));
        if (!captured.empty())
            each_capture(node, [&](std::string& name) {
                if (const auto found = captured.find(name); found != captured.end()) name = found->second;
            });
        std::size_t output = 0;
        for (auto& value : *node.mutable_output())
            if (!value.empty()) value = made[t.index()][output++];
    }
    std::string unchecked = check(model, c_->model), bytes;
    if (model.ByteSizeLong() > std::size_t{std::numeric_limits<int>::max()} ||
        !model.SerializeToString(&bytes))
        throw error({}, "--emit-onnx", "the model would have more than 2 GB",
                    "keep the weights as external data");
    return {std::move(bytes), std::move(unchecked)};
}

} // namespace echo::format
