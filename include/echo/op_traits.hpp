// SPDX-License-Identifier: BSL-1.0
/// @file
/// `op_traits<Op>`: where an op joins Echo. Customisation points, in the order in which to try them:
///
/// 1. Specialise `echo::op_traits<Op>` by inheriting one category (op_categories.hpp), one line:
///    `elementwise<Op>`, `reduction<Op>`, `normalisation<Op>`, `data_movement<Op>`, `light<Op>`,
///    `compute_heavy<Op>`, `random<Op>`, `view<K>`, `stateful`.
/// 2. Give `Op` its mathematics: `static constexpr auto forward` and `gradient`, generic lambdas
///    (symbol.hpp). Gradient reads, one-bit reads and FLOPs follow from them.
/// 3. State a single fact otherwise: redeclare the member in the specialisation, as in
///    `template <> struct echo::op_traits<op> : echo::light<op> {
///         static constexpr auto rerun = echo::rerun_kind::never; };`
/// 4. Give `Op` a `static constexpr std::string_view name` if its type's name is not what reports should
/// print.
///
/// Concept `described<Op>`. Minimal definition: `op_traits<Op>::kind` and `op_traits<Op>::rerun`. Every other
/// member of `op_facts` may be given under its own name; what is absent keeps op_facts' pessimistic default.
/// Laws: the members are constants and hold for every node with this op; the gradient computed from what
/// `gradient_reads` names, and from one bit per element of what `gradient_one_bit` names, is the gradient;
/// running a `pure` op again on the same inputs gives the same bits. Models: every op in ops/.
///
/// ```cpp
/// struct tanh_op {
///     static constexpr auto forward = [](auto x) { return tanh(x); };
///     static constexpr auto gradient = [](auto dy, auto /*x*/, auto y) { return dy * (1 - y * y); };
/// };
/// template <> struct echo::op_traits<tanh_op> : echo::elementwise<tanh_op> {};
/// static_assert(echo::facts_of<tanh_op>().gradient_reads == echo::reads{.outputs = {0}});
/// ```
#pragma once

#include <echo/error.hpp>
#include <echo/op_categories.hpp>
#include <echo/op_facts.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace echo {

/// Specialise me. See the head of this file.
template <class Op>
struct op_traits {
    static_assert(sizeof(Op*) == 0,
                  "echo: this op has no op_traits: specialise echo::op_traits<Op> by inheriting "
                  "a category, as the head of <echo/op_traits.hpp> shows");
};

/// What `facts_of` needs of an op.
template <class Op>
concept described = requires {
    { op_traits<Op>::kind } -> std::convertible_to<op_kind>;
    { op_traits<Op>::rerun } -> std::convertible_to<rerun_kind>;
};

namespace detail {

/// The type's name as the compiler spells it, without its namespaces.
template <class Op>
constexpr std::string_view type_name() {
#if defined(_MSC_VER) && !defined(__clang__)
    std::string_view text = __FUNCSIG__;
    text = text.substr(text.find("type_name<") + 10);
    text = text.substr(0, text.rfind(">("));
#else
    std::string_view text = __PRETTY_FUNCTION__;
    text = text.substr(text.find("Op = ") + 5);
    text = text.substr(0, text.find_first_of(";]"));
#endif
    const auto name = text.substr(0, text.find('<'));
    const auto scope = name.rfind("::");
    return scope == name.npos ? text : text.substr(scope + 2);
}

} // namespace detail

/// The facts of an op type. A constant. Errors: at compile time only.
template <described Op>
[[nodiscard]] constexpr op_facts facts_of() noexcept {
    using traits = op_traits<Op>;
    op_facts facts;
    if constexpr (requires { Op::name; })
        facts.name = Op::name;
    else
        facts.name = detail::type_name<Op>();
    facts.known = true;
    facts.kind = traits::kind;
    facts.rerun = traits::rerun;
    if constexpr (requires { traits::gradient_reads; }) facts.gradient_reads = traits::gradient_reads;
    if constexpr (requires { traits::gradient_one_bit; }) facts.gradient_one_bit = traits::gradient_one_bit;
    if constexpr (requires { traits::one_bit_inputs; }) facts.one_bit_inputs = traits::one_bit_inputs;
    if constexpr (requires { traits::views; }) facts.views = traits::views;
    if constexpr (requires { traits::inplace; }) facts.inplace = traits::inplace;
    if constexpr (requires { traits::gradient_inplace; }) facts.gradient_inplace = traits::gradient_inplace;
    if constexpr (requires { traits::draws_by_element; }) facts.draws_by_element = traits::draws_by_element;
    if constexpr (requires { traits::flops; }) facts.flops = traits::flops;
    if constexpr (requires { traits::workspace; }) facts.workspace = traits::workspace;
    return facts;
}

/// The facts of the alternative that a `std::variant` (or a type derived from one, or one like it) holds.
/// Errors: `echo::error` if it holds none. O(1).
template <template <class...> class Variant, described... Op>
    requires requires(const Variant<Op...>& v) {
        { v.index() } -> std::convertible_to<std::size_t>;
    }
[[nodiscard]] constexpr op_facts facts_of(const Variant<Op...>& op) {
    constexpr op_facts alternatives[] = {facts_of<Op>()...};
    const std::size_t index = op.index();
    if (index >= sizeof...(Op)) throw error({}, "op", "the variant holds no op", "give the node an op");
    return alternatives[index];
}

} // namespace echo
