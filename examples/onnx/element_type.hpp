// SPDX-License-Identifier: BSL-1.0
/// @file
/// Element types of ONNX by their numbers, those included that came after the installed library.
#pragma once

#include <echo/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace echo::format {

struct element_type {
    dtype type = dtype::other;
    unsigned bits = 0; ///< 0: no size of its own, or not known
};

constexpr element_type onnx_element_type(std::int32_t number) noexcept {
    switch (number) {
    case 1:
        return {dtype::f32, 32};
    case 2:
        return {dtype::u8, 8};
    case 3:
        return {dtype::i8, 8};
    case 4: // unsigned, as are 12 and 13
        return {dtype::other, 16};
    case 5:
        return {dtype::i16, 16};
    case 6:
        return {dtype::i32, 32};
    case 7:
        return {dtype::i64, 64};
    case 9:
        return {dtype::boolean, 8};
    case 10:
        return {dtype::f16, 16};
    case 11:
        return {dtype::f64, 64};
    case 12:
        return {dtype::other, 32};
    case 13:
    case 14: // complex of two f32
        return {dtype::other, 64};
    case 15: // complex of two f64
        return {dtype::other, 128};
    case 16:
        return {dtype::bf16, 16};
    case 17:
    case 18:
    case 19:
    case 20:
    case 24:
        return {dtype::f8, 8};
    case 21:
    case 22:
    case 23: // two in a byte
        return {dtype::other, 4};
    case 25:
    case 26: // four in a byte
        return {dtype::other, 2};
    case 27:
    case 28: // four in three bytes
        return {dtype::other, 6};
    default: // 8: strings
        return {};
    }
}

/// ONNX's number of a type by its name, as in `float16`; 0: there is none of this name.
constexpr std::int32_t onnx_element_number(std::string_view name) noexcept {
    constexpr std::string_view names[] = {"",
                                          "float32",
                                          "uint8",
                                          "int8",
                                          "uint16",
                                          "int16",
                                          "int32",
                                          "int64",
                                          "",
                                          "bool",
                                          "float16",
                                          "float64",
                                          "uint32",
                                          "uint64",
                                          "complex64",
                                          "complex128",
                                          "bfloat16",
                                          "float8e4m3fn",
                                          "float8e4m3fnuz",
                                          "float8e5m2",
                                          "float8e5m2fnuz",
                                          "uint4",
                                          "int4",
                                          "float4e2m1",
                                          "float8e8m0",
                                          "uint2",
                                          "int2"};
    for (std::size_t i = 1; i < std::size(names); ++i)
        if (!names[i].empty() && names[i] == name) return static_cast<std::int32_t>(i);
    return 0;
}

} // namespace echo::format
