// SPDX-License-Identifier: BSL-1.0
/// @file
/// `onnx_model` where the ONNX library is not installed: one line that says how to get it.

#include "onnx/model.hpp"

#include <cstdlib>

namespace echo::format {

struct onnx_model::contents {};

onnx_model::onnx_model(std::string_view, const onnx_options&) {
    throw error({}, {}, "built without ONNX",
                "apt-get install libonnx-dev libprotobuf-dev, and configure and build again");
}
onnx_model::onnx_model(onnx_model&&) noexcept = default;
onnx_model& onnx_model::operator=(onnx_model&&) noexcept = default;
onnx_model::~onnx_model() = default;

// Nothing below is ever called: there is no such object.
const file_graph& onnx_model::graph() const noexcept { std::abort(); }
file_graph& onnx_model::graph() noexcept { std::abort(); }
bool onnx_model::trains() const noexcept { std::abort(); }
const std::vector<std::string>& onnx_model::notes() const noexcept { std::abort(); }
bool onnx_model::has_external_data() const noexcept { std::abort(); }
written_model onnx_model::write(const snapshot&, const schedule&) const { std::abort(); }

} // namespace echo::format
