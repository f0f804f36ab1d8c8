// SPDX-License-Identifier: BSL-1.0
/// @file
/// Symbols: an op's mathematics, written once as generic lambdas, and read in several ways.
///
/// - `dependencies` (symbol/dependencies.hpp): which inputs, outputs and output gradients an expression
/// reads.
/// - `infer` (symbol/infer.hpp): shapes and FLOPs, each distinct subexpression counted once.
/// - `apply_elementwise`, `apply_gradient` (symbol/apply.hpp): values on the CPU, through `real<T>`.
///
/// A further reading is a new type that the lambdas run on, or a new function over `symbol::program_view`;
/// no op changes for it. Functions that lambdas may use: symbol/arithmetic.hpp (element-wise; also on
/// `real<T>`) and symbol/tensors.hpp (whole tensors). They are found through their arguments and need no
/// qualification; `over(-1)` and `all_but(1)`, which name axes, live in namespace echo.
///
/// A lambda takes its parameters by value, is captureless, names only those it uses, and chooses with
/// `select(x > 0, a, b)`: `if` on a comparison does not compile.
#pragma once

#include <echo/symbol/apply.hpp>
#include <echo/symbol/arithmetic.hpp>
#include <echo/symbol/dependencies.hpp>
#include <echo/symbol/expression.hpp>
#include <echo/symbol/infer.hpp>
#include <echo/symbol/lambdas.hpp>
#include <echo/symbol/math.hpp>
#include <echo/symbol/operation.hpp>
#include <echo/symbol/program.hpp>
#include <echo/symbol/real.hpp>
#include <echo/symbol/tensors.hpp>
