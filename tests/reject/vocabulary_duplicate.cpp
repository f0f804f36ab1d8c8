// expect: a name stands twice in a vocabulary
// SPDX-License-Identifier: BSL-1.0
#include <echo/vocabulary/vocabulary.hpp>

inline constexpr echo::vocabulary_row rows[] = {
    {{.kind = echo::op_kind::light}, "add tanh"},
#ifdef REJECT
    {{.kind = echo::op_kind::heavy}, "mm add"},
#else
    {{.kind = echo::op_kind::heavy}, "mm"},
#endif
};
constexpr auto words = echo::make_vocabulary<rows>();

static_assert(words.find("mm") != nullptr);
