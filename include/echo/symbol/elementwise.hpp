// SPDX-License-Identifier: BSL-1.0
/// @file
/// The table of element-wise operations. Whatever reads a lambda of element-wise ops is made from it: the operations
/// themselves (operation.hpp), their symbols (arithmetic.hpp), kernels from templates (cuda/kernel/fused_evaluate.hpp)
/// and from text (cuda/kernel/source_step.hpp). What they compute on numbers is said by `real` (real.hpp), by the same
/// names.
#pragma once

#include <echo/config.hpp>

/// `row(name, text)`: functions of one number. In the text, which is CUDA C++ on floats, A is the operand.
#define ECHO_UNARY_FUNCTIONS(row)                                                                            \
    row(exp, "expf(A)") row(log, "logf(A)") row(tanh, "tanhf(A)")                                            \
        row(sigmoid, "0.5f + 0.5f * tanhf(0.5f * A)") row(erf, "erff(A)") row(sqrt, "sqrtf(A)")              \
            row(rsqrt, "1.0f / sqrtf(A)") row(sin, "sinf(A)") row(cos, "cosf(A)")                            \
                row(abs, "A < 0.0f ? -A : A")

/// `row(name, text)`: functions of two numbers, A and B.
#define ECHO_BINARY_FUNCTIONS(row) row(pow, "powf(A, B)") row(max, "A < B ? B : A") row(min, "B < A ? B : A")

/// `row(name, sign, text)`: operators between two numbers that give a number.
#define ECHO_BINARY_OPERATORS(row)                                                                           \
    row(add, +, "A + B") row(subtract, -, "A - B") row(multiply, *, "A * B") row(divide, /, "A / B")

/// `row(name, sign, text)`: operators between two numbers that give a truth.
#define ECHO_COMPARISONS(row)                                                                                \
    row(greater, >, "A > B") row(greater_equal, >=, "A >= B") row(equal, ==, "A == B")

/// `row(name, sign, text)`: operators between two truths.
#define ECHO_LOGICAL_OPERATORS(row) row(logical_and, &&, "A && B") row(logical_or, ||, "A || B")
