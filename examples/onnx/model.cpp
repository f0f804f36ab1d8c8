// SPDX-License-Identifier: BSL-1.0
/// @file
/// `onnx_model` by the ONNX library. The one unit that sees the headers of ONNX and of protobuf.

#include "onnx/inline_functions.hpp"
#include "onnx/model.hpp"
#include "onnx/model_reader.hpp"
#include "onnx/model_writer.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <limits>

namespace echo::format {
namespace {

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
}

template <class F>
void each_tensor(const onnx::GraphProto& graph, const F& f);

template <class F>
void each_tensor(const onnx::NodeProto& node, const F& f) {
    for (const auto& a : node.attribute()) {
        if (a.has_t()) f(a.t());
        for (const auto& t : a.tensors()) f(t);
        if (a.has_sparse_tensor()) f(a.sparse_tensor().values()), f(a.sparse_tensor().indices());
        if (a.has_g()) each_tensor(a.g(), f);
        for (const auto& g : a.graphs()) each_tensor(g, f);
    }
}

template <class F>
void each_tensor(const onnx::GraphProto& graph, const F& f) {
    for (const auto& t : graph.initializer()) f(t);
    for (const auto& t : graph.sparse_initializer()) f(t.values()), f(t.indices());
    for (const auto& node : graph.node()) each_tensor(node, f);
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
    const inlined calls = inline_functions(c_->model);
    onnx_options meant = asked;
    if (const auto call = calls.first_node.find(asked.first_backward); call != calls.first_node.end())
        meant.first_backward = call->second;
    model_reader reader(c_->model, meant);
    c_->graph = std::move(reader.graph);
    c_->nodes = std::move(reader.nodes);
    c_->notes = std::move(reader.notes);
    c_->trains = reader.trains();
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
    const auto look = [&](const onnx::TensorProto& t) {
        any |= t.data_location() == onnx::TensorProto::EXTERNAL;
    };
    each_tensor(c_->model.graph(), look);
    for (const auto& function : c_->model.functions())
        for (const auto& node : function.node()) each_tensor(node, look);
    return any;
}

written_model onnx_model::write(const snapshot& s, const schedule& steps) const {
    if (c_->model.training_info_size() > 0)
        throw error({}, "training_info", "reads values that a plan may leave out",
                    "remove it, or make what it reads an output of the graph");
    onnx::ModelProto model = c_->model;
    model_writer(c_->model.graph(), c_->nodes, s, steps).write(*model.mutable_graph());
    std::string unchecked = check(model, c_->model), bytes;
    if (model.ByteSizeLong() > std::size_t{std::numeric_limits<int>::max()} ||
        !model.SerializeToString(&bytes))
        throw error({}, "--emit-onnx", "the model would have more than 2 GB",
                    "keep the weights as external data");
    return {std::move(bytes), std::move(unchecked)};
}

} // namespace echo::format
