// SPDX-License-Identifier: BSL-1.0
/// @file
/// As much of cuBLAS as the engine calls, on the host, written from its documentation: columns one behind the
/// other. It refuses an attribute of the wrong size, a workspace that is not as announced, and addresses that are
/// not aligned.
#include <cublasLt.h>

#include <cstdint>
#include <cstring>
#include <map>

/// The interpreter of PTX, where there is one, is told what a library writes (ptx/device.hpp).
extern "C" [[gnu::weak]] void echo_ptx_written(const void* at, std::size_t bytes);

namespace {

struct attributes {
    std::map<int, std::uint64_t> of{};
    cublasStatus_t set(int which, const void* from, std::size_t is, std::size_t expected) {
        if (is != expected) return CUBLAS_STATUS_INVALID_VALUE;
        std::memcpy(&(of[which] = 0), from, is);
        return CUBLAS_STATUS_SUCCESS;
    }
    std::uint64_t get(int which, std::uint64_t otherwise) const {
        const auto at = of.find(which);
        return at == of.end() ? otherwise : at->second;
    }
};

struct layout : attributes {
    std::uint64_t rows, columns;
    std::int64_t ld;
    std::uint64_t batch() const { return get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1); }
    std::uint64_t stride() const { return get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0); }
};

template <class Is, class Handle>
Is& as(Handle handle) {
    return *reinterpret_cast<Is*>(handle);
}

std::uint64_t workspace = 0, aligned = 0;

/// op(m)[row, column] of a batch.
float at(const float* data, const layout& m, bool transposed, std::uint64_t b, std::uint64_t row,
         std::uint64_t column) {
    if (transposed) std::swap(row, column);
    return data[b * m.stride() + row + column * static_cast<std::uint64_t>(m.ld)];
}
std::uint64_t rows(const layout& m, bool transposed) { return transposed ? m.columns : m.rows; }
std::uint64_t columns(const layout& m, bool transposed) { return transposed ? m.rows : m.columns; }

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* made) {
    *made = reinterpret_cast<cublasLtHandle_t>(&workspace);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "refused"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *made = reinterpret_cast<cublasLtMatmulDesc_t>(new attributes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
    delete &as<attributes>(d);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which,
                                              const void* from, size_t bytes) {
    return as<attributes>(d).set(which, from, bytes, which == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? 8 : 4);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    if (type != CUDA_R_32F || ld < static_cast<std::int64_t>(rows) || rows == 0 || columns == 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    *made = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{{}, rows, columns, ld});
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
    delete &as<layout>(l);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t which, const void* from,
                                                size_t bytes) {
    return as<layout>(l).set(which, from, bytes, which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? 4 : 8);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
    *made = reinterpret_cast<cublasLtMatmulPreference_t>(new attributes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
    delete &as<attributes>(p);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* from, size_t bytes) {
    return as<attributes>(p).set(which, from, bytes,
                                 which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t wanted,
                                              int asked, cublasLtMatmulHeuristicResult_t* found, int* count) {
    const auto& p = as<attributes>(wanted);
    workspace = p.get(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
    aligned = p.get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256);
    for (const int which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        if (p.get(which, 256) != aligned) return CUBLAS_STATUS_INVALID_VALUE;
    if (asked != 1) return CUBLAS_STATUS_INVALID_VALUE;
    *found = {};
    found->state = CUBLAS_STATUS_SUCCESS;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/// d = alpha · op(a) · op(b) + beta · c, and a number of the bias for each row of d.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t what, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                              void* work, size_t bytes, cudaStream_t) {
    const auto& how = as<attributes>(what);
    const bool ta = how.get(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
    const bool tb = how.get(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T;
    const bool biased =
        how.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT) == CUBLASLT_EPILOGUE_BIAS;
    const auto* const bias = reinterpret_cast<const float*>(how.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 0));
    const layout &la = as<layout>(a_layout), &lb = as<layout>(b_layout), &lc = as<layout>(c_layout),
                 &ld = as<layout>(d_layout);
    for (const void* at : {a, b, c, static_cast<const void*>(d)})
        if (reinterpret_cast<std::uintptr_t>(at) % aligned) return CUBLAS_STATUS_INVALID_VALUE;
    if (!algorithm || !work || bytes != workspace || biased != (bias != nullptr))
        return CUBLAS_STATUS_INVALID_VALUE;
    const std::uint64_t m = rows(la, ta), n = columns(lb, tb), k = columns(la, ta);
    if (rows(lb, tb) != k || ld.rows != m || ld.columns != n || lc.rows != m || lc.columns != n ||
        lb.batch() != la.batch() || ld.batch() != la.batch() || lc.batch() != la.batch())
        return CUBLAS_STATUS_INVALID_VALUE;
    float by = 0, keep = 0;
    std::memcpy(&by, alpha, sizeof by), std::memcpy(&keep, beta, sizeof keep);
    for (std::uint64_t batch = 0; batch < la.batch(); ++batch)
        for (std::uint64_t j = 0; j < n; ++j)
            for (std::uint64_t i = 0; i < m; ++i) {
                double sum = 0;
                for (std::uint64_t l = 0; l < k; ++l)
                    sum += static_cast<double>(at(static_cast<const float*>(a), la, ta, batch, i, l)) *
                           static_cast<double>(at(static_cast<const float*>(b), lb, tb, batch, l, j));
                sum *= static_cast<double>(by);
                if (keep != 0)
                    sum += static_cast<double>(keep) *
                           static_cast<double>(at(static_cast<const float*>(c), lc, false, batch, i, j));
                if (biased) sum += static_cast<double>(bias[i]);
                float* const to =
                    static_cast<float*>(d) + batch * ld.stride() + i + j * static_cast<std::uint64_t>(ld.ld);
                *to = static_cast<float>(sum);
                if (echo_ptx_written) echo_ptx_written(to, sizeof *to);
            }
    return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
