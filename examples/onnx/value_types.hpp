// SPDX-License-Identifier: BSL-1.0
/// @file
/// `value_types`: element type and extents of every value of a model, and what is still to be asked for. Compiled into
/// model.cpp alone.
#pragma once

#include "onnx/element_type.hpp"
#include "onnx/guarded.hpp"
#include "onnx/library.hpp"
#include "onnx/model.hpp"
#include "onnx/type_walk.hpp"

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace echo::format {

/// What is known of a value.
struct value_type {
    std::int32_t element = 0; ///< ONNX's number of the type
    std::vector<std::int64_t> extents{};
    /// Not empty: the value cannot be counted, and this is why; `advice` says what to do.
    std::string problem{}, advice{};
    bool is_tensor = true;
    /// Options that would tell what is not known; empty where none does, or where it follows from another value.
    std::vector<std::string> options{};
};

/// The rules of the ONNX library were not written for hostile files, so that they run in a process of their own.
class value_types {
public:
    /// Errors: an extent is negative; a shape that is stated contradicts the model; as `guarded`.
    value_types(const onnx::ModelProto& model, const onnx_options& asked) {
        for (const auto& input : model.graph().input()) require_extents(input);
        const onnx::ModelProto answer = inferred(model, asked);
        for (const auto& one : answer.metadata_props()) {
            if (one.key() == "note") notes_.push_back(one.value());
            if (one.key() == "error") throw_parts(one.value());
            if (one.key() == "unused") unused_ = one.value();
        }
        for (const auto& value : answer.graph().value_info())
            types_[value.name()] =
                describe(value.name(), value.type(), value.has_doc_string() ? &value.doc_string() : nullptr);
        for (const auto& input : model.graph().input()) name_as_input(types_[input.name()]);
    }

    /// Of a value that nobody knows: one with a problem.
    const value_type& operator[](const std::string& name) const {
        static const value_type nothing{.problem = "nothing tells its type and shape",
                                        .advice = "state it in the model's value_info"};
        const auto found = types_.find(name);
        return found == types_.end() ? nothing : found->second;
    }

    /// Where the model and the rules of its ops do not agree.
    const std::vector<std::string>& notes() const noexcept { return notes_; }
    /// Errors: something is stated of what is not there, or is known.
    void check_all_used() const {
        if (unused_) throw_parts(*unused_);
    }

private:
    /// An error as one text, and back.
    static std::string parts(const error& e) {
        return e.node() + '\0' + e.key() + '\0' + e.problem() + '\0' + e.advice();
    }
    [[noreturn]] static void throw_parts(const std::string& text) {
        std::vector<std::string> part(1);
        for (const char c : text)
            if (c == '\0')
                part.emplace_back();
            else
                part.back() += c;
        part.resize(4);
        throw error(part[0], part[1], part[2], part[3]);
    }

    /// Types as `value_info`; `doc_string` of a value that is open although its node's inputs are not, with what the
    /// rule of the op says.
    static onnx::ModelProto inferred(const onnx::ModelProto& model, const onnx_options& asked) {
        const std::string bytes = guarded("shapes", [&] {
            onnx::ModelProto answer;
            const auto add = [&](const char* key, const std::string& value) {
                auto& one = *answer.add_metadata_props();
                one.set_key(key);
                one.set_value(value);
            };
            stated_extents stated(asked);
            try {
                const type_walk walk(model, stated);
                for (const auto& [name, type] : walk.types()) {
                    auto& value = *answer.mutable_graph()->add_value_info();
                    value.set_name(name);
                    *value.mutable_type() = type;
                    if (const auto open = walk.open().find(name); open != walk.open().end())
                        value.set_doc_string(open->second);
                }
                for (const auto& note : walk.notes()) add("note", note);
            } catch (const error& e) {
                add("error", parts(e));
            }
            try {
                stated.check_all_used();
            } catch (const error& e) {
                add("unused", parts(e));
            }
            return answer.SerializeAsString();
        });
        onnx::ModelProto answer;
        if (!answer.ParseFromString(bytes))
            throw error({}, "shapes", "the ONNX library gives none", "report it with the model");
        return answer;
    }

    static void require_extents(const onnx::ValueInfoProto& input) {
        for (int axis = 0; axis < input.type().tensor_type().shape().dim_size(); ++axis)
            if (input.type().tensor_type().shape().dim(axis).dim_value() < -1)
                throw error(input.name(), "shape", "its extent " + std::to_string(axis) + " is negative",
                            "give extents of 0 or more");
    }

    /// As a shell takes it for one word.
    static std::string quoted(const std::string& name) {
        const auto plain = [](unsigned char c) {
            return std::isalnum(c) != 0 || c >= 0x80 ||
                   std::string_view("_-./:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
        };
        if (std::ranges::all_of(name, plain)) return name;
        std::string made = "'";
        for (const char c : name) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
        return made + "'";
    }

    /// `open`: not nullptr where the value does not follow from another one; what the rule of its op says.
    static value_type describe(const std::string& name, const onnx::TypeProto& type,
                               const std::string* open) {
        const auto not_a_tensor = [](const char* what) -> value_type {
            return {.problem = std::string("is ") + what + ", and only tensors have a size that is known",
                    .advice = "plan a graph of tensors",
                    .is_tensor = false};
        };
        if (type.has_sequence_type()) return not_a_tensor("a sequence");
        if (type.has_map_type()) return not_a_tensor("a map");
        if (type.has_optional_type()) return not_a_tensor("an optional value");
        if (type.has_sparse_tensor_type()) return not_a_tensor("a sparse tensor");
        const auto& tensor = type.tensor_type();
        if (tensor.elem_type() == onnx::TensorProto::STRING)
            return {.problem = "is of strings, whose size is not known",
                    .advice = "plan a graph of numbers",
                    .is_tensor = false};
        value_type made{.element = tensor.elem_type()};
        const bool nameless = tensor.elem_type() == 0;
        if (nameless || !tensor.has_shape()) {
            made.problem = nameless ? "nothing tells its type and shape" : "its shape is not known";
            if (open != nullptr && !open->empty()) made.problem += " (" + *open + ")";
            made.options.push_back("--shape " + quoted(name) + (nameless ? "=TYPE:EXTENTS" : "=EXTENTS"));
        }
        for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
            const auto& dim = tensor.shape().dim(axis);
            made.extents.push_back(dim.dim_value());
            if (is_known(dim) || nameless) continue;
            const bool named = !dim.dim_param().empty();
            if (made.problem.empty())
                made.problem =
                    named ? "its dimension '" + dim.dim_param() + "' is symbolic"
                          : "its extent " + std::to_string(axis) + " is not known before the graph runs";
            made.options.push_back(
                "--dim " + quoted(named ? dim.dim_param() : name + ":" + std::to_string(axis)) + "=VALUE");
        }
        if (!made.problem.empty()) made.advice = "state it in the model's value_info";
        if (open == nullptr) made.options.clear();
        return made;
    }

    static void name_as_input(value_type& type) {
        if (type.problem == "its shape is not known") type.problem = "this input states none";
        const auto end = type.problem.find(" is not known before");
        if (end != std::string::npos) type.problem = type.problem.substr(0, end) + " is not stated";
    }

    std::unordered_map<std::string, value_type> types_;
    std::vector<std::string> notes_;
    std::optional<std::string> unused_;
};

} // namespace echo::format
