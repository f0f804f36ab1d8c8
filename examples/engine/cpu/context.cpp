// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/context.hpp"

#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace engine::cpu {
namespace {

int offered() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

} // namespace

context::context(int threads) : threads_(threads > 0 ? threads : offered()) {
#ifdef _OPENMP
    omp_set_num_threads(threads_); // oneDNN asks for it
#endif
}

void context::run(std::size_t parts, void (*part)(const void*, std::size_t), const void* what) {
    const int number = static_cast<int>(parts);
    std::exception_ptr thrown;
#ifdef _OPENMP
#pragma omp parallel for num_threads(number) schedule(static, 1)
#endif
    for (int p = 0; p < number; ++p) {
        try {
            part(what, static_cast<std::size_t>(p));
        } catch (...) {
#ifdef _OPENMP
#pragma omp critical
#endif
            thrown = std::current_exception();
        }
    }
    if (thrown) std::rethrow_exception(thrown);
}

} // namespace engine::cpu
