// SPDX-License-Identifier: BSL-1.0
/// @file
/// The kernels of all ops but those of a library: for each op `X`
///   run(const ops::X&, const call&, Launcher&)         starts its kernels one behind the other
///   scratch(const ops::X&, tensor_span in, out)        bytes of scratch memory, where it wants some
/// in `engine::cuda`. They are bodies over a warp policy (echo/cuda/kernel/warp.hpp) and include no header of CUDA.
/// `Launcher`: `launcher(name, body)` runs a body, behind those before it.
///
/// Bits of a result depend on shapes and inputs alone: not on the grid, the addresses, nor on what lies in place. Only
/// the values of pointers are looked at when a call is issued, so that it can be recorded and run again. What a label,
/// index or length outside its range makes is not a number, so that the loss is none; a kernel has no other way to say
/// it.
#pragma once

#include "engine/cuda/kernels/batch_norm.hpp"
#include "engine/cuda/kernels/ctc.hpp"
#include "engine/cuda/kernels/elementwise.hpp"
#include "engine/cuda/kernels/embedding.hpp"
#include "engine/cuda/kernels/loss.hpp"
#include "engine/cuda/kernels/movement.hpp"
#include "engine/cuda/kernels/pooling.hpp"
#include "engine/cuda/kernels/softmax.hpp"
#include "engine/cuda/kernels/strided.hpp"
#include "engine/cuda/kernels/sums.hpp"
#include "engine/cuda/kernels/update.hpp"
