// SPDX-License-Identifier: BSL-1.0
/// @file
/// The headers of the ONNX library, which take long to compile, in the one way in which they do compile.
#pragma once

#include <sys/mman.h>
#undef MAP_TYPE // a macro there, and a name in ONNX's headers

#include <onnx/checker.h>
#include <onnx/common/constants.h>
#include <onnx/defs/schema.h>
#include <onnx/defs/tensor_proto_util.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>
