// SPDX-License-Identifier: BSL-1.0
#include "engine/cuda/matrix_product.hpp"
#include "engine/cuda/products.hpp"

#include <echo/cuda/error.hpp>
#include <echo/cuda/jit/shared_library.hpp>

#include <cublasLt.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <type_traits>

namespace engine::cuda {
namespace {

/// The library's functions, found when the first device is used: it is large, and nothing else needs it.
struct functions {
    decltype(cublasLtCreate)* create = nullptr;
    decltype(cublasLtDestroy)* destroy = nullptr;
    decltype(cublasLtGetStatusString)* words = nullptr;
    decltype(cublasLtMatmulDescCreate)* create_description = nullptr;
    decltype(cublasLtMatmulDescDestroy)* destroy_description = nullptr;
    decltype(cublasLtMatmulDescSetAttribute)* set_description = nullptr;
    decltype(cublasLtMatrixLayoutCreate)* create_layout = nullptr;
    decltype(cublasLtMatrixLayoutDestroy)* destroy_layout = nullptr;
    decltype(cublasLtMatrixLayoutSetAttribute)* set_layout = nullptr;
    decltype(cublasLtMatmulPreferenceCreate)* create_preference = nullptr;
    decltype(cublasLtMatmulPreferenceDestroy)* destroy_preference = nullptr;
    decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference = nullptr;
    decltype(cublasLtMatmulAlgoGetHeuristic)* choose = nullptr;
    decltype(cublasLtMatmul)* multiply = nullptr;

    explicit functions(const std::string& library) {
        const std::string usual = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
        const auto found = echo::cuda::jit::shared_library::first_of({library, usual});
        if (!found.loaded()) refuse("cannot be loaded: " + found.problem());
        const auto find = [&]<class Function>(Function*& to, const char* name) {
            to = found.function<Function>(name);
            if (!to) refuse(std::string("has no ") + name);
        };
        find(create, "cublasLtCreate");
        find(destroy, "cublasLtDestroy");
        find(words, "cublasLtGetStatusString");
        find(create_description, "cublasLtMatmulDescCreate");
        find(destroy_description, "cublasLtMatmulDescDestroy");
        find(set_description, "cublasLtMatmulDescSetAttribute");
        find(create_layout, "cublasLtMatrixLayoutCreate");
        find(destroy_layout, "cublasLtMatrixLayoutDestroy");
        find(set_layout, "cublasLtMatrixLayoutSetAttribute");
        find(create_preference, "cublasLtMatmulPreferenceCreate");
        find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
        find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
        find(choose, "cublasLtMatmulAlgoGetHeuristic");
        find(multiply, "cublasLtMatmul");
    }

    void check(cublasStatus_t status, const char* call) const {
        if (status == CUBLAS_STATUS_SUCCESS) return;
        using echo::cuda::fault;
        const fault kind = status == CUBLAS_STATUS_ALLOC_FAILED    ? fault::out_of_memory
                           : status == CUBLAS_STATUS_ARCH_MISMATCH ? fault::wrong_architecture
                           : status == CUBLAS_STATUS_INVALID_VALUE ? fault::invalid
                                                                   : fault::other;
        throw echo::cuda::error(kind, 0, call,
                                std::string(words(status)) + " (" + std::to_string(status) + ")");
    }

private:
    [[noreturn]] static void refuse(const std::string& why) {
        throw echo::cuda::error(
            echo::cuda::fault::other, 0, "cuBLAS", why,
            "install the CUDA toolkit's libraries, or name their folder in LD_LIBRARY_PATH");
    }
};

/// Gives back what the library made.
template <class Function>
struct destroyer {
    Function* destroy = nullptr;
    template <class T>
    void operator()(T* handle) const {
        static_cast<void>(destroy(handle));
    }
};
template <class Handle, class Function>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, destroyer<Function>>;

using layout = owned<cublasLtMatrixLayout_t, decltype(cublasLtMatrixLayoutDestroy)>;
using description = owned<cublasLtMatmulDesc_t, decltype(cublasLtMatmulDescDestroy)>;
using preference = owned<cublasLtMatmulPreference_t, decltype(cublasLtMatmulPreferenceDestroy)>;
using library_handle = owned<cublasLtHandle_t, decltype(cublasLtDestroy)>;

/// Multiples of this are all that is promised of addresses.
constexpr std::uint32_t alignment = 16;

} // namespace

class products::cublas {
public:
    cublas(echo::cuda::stream_ref stream, void* workspace, bool tf32, const std::string& library)
        : lib_(library), stream_(stream), workspace_(workspace),
          compute_(tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F) {
        cublasLtHandle_t made = nullptr;
        lib_.check(lib_.create(&made), "cublasLtCreate");
        handle_ = {made, {lib_.destroy}};
    }

    /// y = a · b (+ bias) (+ added). `y` may lie on `added`.
    void run(matrix_product g, const void* a, const void* b, const void* bias, const void* added, void* y) {
        if (g.batch == 0 || g.m == 0 || g.n == 0) return;
        for (const void* at : {a, b, bias, added, static_cast<const void*>(y)})
            if (reinterpret_cast<std::uintptr_t>(at) % alignment)
                throw echo::cuda::error(echo::cuda::fault::misaligned, 0, "a product of matrices",
                                        "a tensor begins at no multiple of 16",
                                        "plan with memory_options::align 256");
        g.adds = false; // the same algorithm
        prepared& p = find(g);
        if (bias) set(p.what.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        const float one = 1, beta = added ? 1 : 0;
        // cuBLAS has columns one behind the other: what it sees of our c is cᵀ, and cᵀ = bᵀ · aᵀ.
        lib_.check(lib_.multiply(handle_.get(), p.what.get(), &one, b, p.b.get(), a, p.a.get(), &beta,
                                 added ? added : y, p.c.get(), y, p.c.get(), &p.how, workspace_,
                                 workspace_bytes, stream_.get()),
                   "cublasLtMatmul");
    }

private:
    struct prepared {
        description what;
        layout a, b, c;
        cublasLtMatmulAlgo_t how;
    };

    template <class T>
    void set(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t which, const T& to) const {
        lib_.check(lib_.set_description(of, which, &to, sizeof to), "cublasLtMatmulDescSetAttribute");
    }
    template <class T>
    void set(cublasLtMatmulPreference_t of, cublasLtMatmulPreferenceAttributes_t which, const T& to) const {
        lib_.check(lib_.set_preference(of, which, &to, sizeof to), "cublasLtMatmulPreferenceSetAttribute");
    }
    template <class T>
    void set(cublasLtMatrixLayout_t of, cublasLtMatrixLayoutAttribute_t which, const T& to) const {
        lib_.check(lib_.set_layout(of, which, &to, sizeof to), "cublasLtMatrixLayoutSetAttribute");
    }

    /// Rows of `columns` elements as cuBLAS sees them: columns of `columns` elements.
    layout rows_of(std::int64_t batch, std::int64_t rows, std::int64_t columns) const {
        cublasLtMatrixLayout_t made = nullptr;
        lib_.check(lib_.create_layout(&made, CUDA_R_32F, static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows), columns),
                   "cublasLtMatrixLayoutCreate");
        layout kept(made, {lib_.destroy_layout});
        if (batch == 1) return kept;
        if (batch > std::numeric_limits<std::int32_t>::max())
            throw echo::cuda::error(echo::cuda::fault::invalid, 0, "a product of matrices",
                                    std::to_string(batch) + " products at once are too many for cuBLAS");
        set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
        set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{rows * columns});
        return kept;
    }

    prepared& find(const matrix_product& g) {
        const auto known = known_.find(g);
        if (known != known_.end()) return known->second;
        prepared p;
        cublasLtMatmulDesc_t what = nullptr;
        lib_.check(lib_.create_description(&what, compute_, CUDA_R_32F), "cublasLtMatmulDescCreate");
        p.what = {what, {lib_.destroy_description}};
        set(what, CUBLASLT_MATMUL_DESC_TRANSA, g.tb ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(what, CUBLASLT_MATMUL_DESC_TRANSB, g.ta ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (g.bias) set(what, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        p.a = g.ta ? rows_of(g.batch, g.k, g.m) : rows_of(g.batch, g.m, g.k);
        p.b = g.tb ? rows_of(g.batch, g.n, g.k) : rows_of(g.batch, g.k, g.n);
        p.c = rows_of(g.batch, g.m, g.n);

        cublasLtMatmulPreference_t made = nullptr;
        lib_.check(lib_.create_preference(&made), "cublasLtMatmulPreferenceCreate");
        const preference wanted(made, {lib_.destroy_preference});
        set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
        for (const auto which :
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
            set(made, which, alignment);
        cublasLtMatmulHeuristicResult_t best{};
        int count = 0;
        lib_.check(lib_.choose(handle_.get(), what, p.b.get(), p.a.get(), p.c.get(), p.c.get(), made, 1,
                               &best, &count),
                   "cublasLtMatmulAlgoGetHeuristic");
        if (count == 0)
            throw echo::cuda::error(echo::cuda::fault::other, 0, "a product of matrices",
                                    "cuBLAS has no algorithm for " + to_string(g));
        lib_.check(best.state, "cublasLtMatmulAlgoGetHeuristic");
        p.how = best.algo;
        return known_.emplace(g, std::move(p)).first->second;
    }

    functions lib_;
    echo::cuda::stream_ref stream_;
    void* workspace_;
    cublasComputeType_t compute_;
    library_handle handle_;
    std::map<matrix_product, prepared> known_;
};

products::products(echo::cuda::stream_ref stream, void* workspace, bool tf32, const std::string& library)
    : library_(std::make_unique<cublas>(stream, workspace, tf32, library)) {}
products::~products() = default;
products::products(products&&) noexcept = default;
products& products::operator=(products&&) noexcept = default;

void products::run(const ops::fully_connected& op, const call& c) {
    library_->run(product_of(op, c), c.inputs[0].data, c.inputs[1].data, op.bias ? c.inputs[2].data : nullptr,
                  nullptr, c.outputs[0].data);
}
void products::run(const ops::fully_connected_data_gradient& op, const call& c) {
    library_->run(product_of(op, c), c.inputs[0].data, c.inputs[1].data, nullptr, nullptr, c.outputs[0].data);
}
void products::run(const ops::fully_connected_weight_gradient& op, const call& c) {
    library_->run(product_of(op, c), c.inputs[0].data, c.inputs[1].data, nullptr,
                  op.adds ? c.inputs[2].data : nullptr, c.outputs[0].data);
}
void products::run(const ops::batch_dot& op, const call& c) {
    library_->run(product_of(op, c), c.inputs[0].data, c.inputs[1].data, nullptr, nullptr, c.outputs[0].data);
}

} // namespace engine::cuda
