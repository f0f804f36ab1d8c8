// SPDX-License-Identifier: BSL-1.0
/// @file
/// `onnx_model`: an ONNX file as a `file_graph`, and back: a schedule of the graph as an ONNX file. Nothing of ONNX or
/// of protobuf is seen here; without.cpp stands in where they are not installed. docs/onnx.md says what is read how.
#pragma once

#include "format/file_graph.hpp"

#include <echo/analysis/schedule/schedule.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::format {

/// The shape of a value that the model leaves open, as the command line states it.
struct stated_shape {
    std::string value{};
    std::vector<std::int64_t> extents{};
    std::int32_t element = 0; ///< ONNX's number of the type; 0: the model states it
};

struct onnx_options {
    /// Symbolic dimensions by their names; an extent without a name as `VALUE:AXIS`.
    std::vector<std::pair<std::string, std::int64_t>> dims{};
    std::vector<stated_shape> shapes{};
    /// A node, or a value: the gradient begins where it is made. Empty: gradients are told by the names of ops and
    /// values.
    std::string first_backward{};
};

/// A model as it was planned.
struct written_model {
    std::string bytes{};
    std::string
        unchecked{}; ///< empty: the checker of the ONNX library accepts it; otherwise why it was not asked
};

class onnx_model {
public:
    /// Reads the bytes of a file. Weights that lie in other files are not looked at. Errors: it is no ONNX model or no
    /// sound graph; a size is not known.
    onnx_model(std::string_view bytes, const onnx_options& asked);
    onnx_model(onnx_model&&) noexcept;
    onnx_model& operator=(onnx_model&&) noexcept;
    ~onnx_model();

    /// Inputs and initializers first, then the nodes as they stand in the file.
    const file_graph& graph() const noexcept;
    file_graph& graph() noexcept;
    /// Whether a gradient or an update is computed.
    bool trains() const noexcept;
    /// What the user should know of how the file was read.
    const std::vector<std::string>& notes() const noexcept;
    /// Whether weights lie in files that are named relative to the model's folder.
    bool has_external_data() const noexcept;

    /// The model with its nodes as `steps` runs them: what runs again has a name of its own. Errors: a step that no
    /// ONNX node can be (encoded, fused); more than 2 GB; the checker refuses it, though it accepts the model as it was
    /// read.
    written_model write(const snapshot& s, const schedule& steps) const;

private:
    struct contents;
    std::unique_ptr<contents> c_;
};

} // namespace echo::format
