// SPDX-License-Identifier: BSL-1.0
/// @file
/// Element types of ONNX by their numbers, those included that came after the installed library.
#pragma once

#include <echo/tensor.hpp>

#include <cstdint>

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
        return {dtype::f8, 8};
    case 21:
    case 22:
    case 23: // two in a byte
        return {dtype::other, 4};
    default: // 8: strings
        return {};
    }
}

} // namespace echo::format
