// SPDX-License-Identifier: BSL-1.0
/// @file
/// A fused program as CUDA source. Names in it are numbers of steps: no text of a graph, a file or an op gets into it.
#pragma once

#include <echo/cuda/kernel/fused_layout.hpp>
#include <echo/cuda/kernel/source_access.hpp>
#include <echo/cuda/kernel/source_layout.hpp>
#include <echo/cuda/kernel/source_numbers.hpp>
#include <echo/cuda/kernel/source_program.hpp>
#include <echo/cuda/kernel/source_step.hpp>
#include <echo/cuda/kernel/source_walk.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace echo::cuda::fused {

namespace detail {

class source_writer {
public:
    /// `layout`: what the kernel is made for; null for a kernel for any.
    source_writer(const run_time_program& p, const launch_shape* layout,
                  std::span<const launch_operand> operands)
        : p_(p), layout_(layout), operands_(operands) {}

    std::string write() {
        line("#define ECHO_OPERANDS " + std::to_string(p_.kinds.size()));
        line("#define ECHO_WIDTH " + std::to_string(group_width()) + "u");
        line("#define ECHO_THREADS " + std::to_string(p_.threads()));
        out_ += source_numbers;
        out_ += source_access;
        out_ += source_walk;
        if (p_.rows.by_row) {
            write_row_values();
            for (std::size_t pass = 0; pass < p_.rows.passes; ++pass) write_pass(pass);
        }
        write_group();
        write_warp();
        return out_;
    }
    std::uint32_t group_width() const noexcept { return fused::group_width(p_.kinds); }

private:
    void line(const std::string& text) { out_ += text + "\n"; }
    std::string kind(std::size_t operand) const {
        return std::to_string(static_cast<int>(p_.kinds[operand]));
    }

    /// The row's values, and for each level of reductions a function that computes what then is known.
    void write_row_values() {
        line("struct echo_row {");
        for (std::size_t i = 0; i < p_.steps.size(); ++i)
            if (text_.known(i))
                line((text_.is_truth(p_.steps[i]) ? "    bool " : "    float ") + text_.v(i) + ";");
        line("};");
        for (std::size_t level = 0; level <= p_.rows.passes; ++level) {
            line("ECHO_DEVICE void echo_row_" + std::to_string(level) + "(echo_row& r, i64 length) {");
            line("    (void)r;\n    (void)length;");
            for (std::size_t i = 0; i < p_.steps.size(); ++i)
                if (text_.known(i) && p_.timing[i].level == level && !is_row_reduction(p_.steps[i].kind))
                    line("    r." + text_.v(i) + " = " + text_.expression(i) + ";");
            line("}");
        }
    }

    void write_loads(std::size_t pass) {
        for (std::size_t i = 0; i < p_.steps.size(); ++i) {
            const step& s = p_.steps[i];
            if (s.kind != step_kind::operand || !text_.in_pass(i, pass)) continue;
            const std::string x = "x" + std::to_string(s.operands[0]);
            const std::size_t operand = p_.results.size() + s.operands[0];
            const std::string o = std::to_string(operand);
            line("    echo_raw<" + kind(operand) + "> " + x + ";");
            line("    g.template load<" + kind(operand) + ">(" + x + ", " + o + ");");
        }
    }
    void write_steps(std::size_t pass) {
        for (std::size_t i = 0; i < p_.steps.size(); ++i)
            if (text_.in_pass(i, pass)) line("        " + text_.declared(i));
    }

    void write_pass(std::size_t pass) {
        const std::string n = std::to_string(pass);
        const auto sums = text_.reductions(pass);
        const std::string type = "echo_sums<" + std::to_string(sums.size()) + ">";
        line("ECHO_DEVICE void echo_none_" + n + "(" + type + "& s) {");
        for (std::size_t k = 0; k < sums.size(); ++k)
            line("    s.of[" + std::to_string(k) + "] = " +
                 (p_.steps[sums[k]].kind == step_kind::row_sum ? "0.0f;" : "echo_number(0xff800000u);"));
        line("}");
        line("ECHO_DEVICE void echo_both_" + n + "(" + type + "& s, const " + type + "& other) {");
        for (std::size_t k = 0; k < sums.size(); ++k) {
            const std::string at = ".of[" + std::to_string(k) + "]";
            line("    s" + at + " = " + text_.combined(sums[k], "s" + at, "other" + at) + ";");
        }
        line("}");
        line("template <class Group> ECHO_DEVICE void echo_pass_" + n + "(" + type +
             "& s, const Group& g, const echo_row& r, i64 index) {");
        line("    (void)r;\n    (void)index;");
        write_loads(pass);
        line("#pragma unroll\n    for (u32 e = 0; e < ECHO_WIDTH; ++e) {");
        write_steps(pass);
        line("        if (g.has(e)) {");
        for (std::size_t k = 0; k < sums.size(); ++k) {
            const std::string at = "s.of[" + std::to_string(k) + "]";
            line("            " + at + " = " +
                 text_.combined(sums[k], at, text_.value(p_.steps[sums[k]].operands[0])) + ";");
        }
        line("        }\n    }\n}");
    }

    void write_group() {
        const std::size_t pass = p_.rows.passes;
        line("template <class Group> ECHO_DEVICE void echo_group(const Group& g" +
             std::string(p_.rows.by_row ? ", const echo_row& r, i64 index" : "") + ") {");
        if (p_.rows.by_row) line("    (void)r;\n    (void)index;");
        line("    (void)g;");
        write_loads(pass);
        for (std::size_t k = 0; k < p_.results.size(); ++k)
            if (!p_.result_by_row(k)) line("    float y" + std::to_string(k) + "[ECHO_WIDTH];");
        line("#pragma unroll\n    for (u32 e = 0; e < ECHO_WIDTH; ++e) {");
        write_steps(pass);
        for (std::size_t k = 0; k < p_.results.size(); ++k)
            if (!p_.result_by_row(k))
                line("        y" + std::to_string(k) + "[e] = " + text_.value(p_.results[k]) + ";");
        line("    }");
        for (std::size_t k = 0; k < p_.results.size(); ++k)
            if (!p_.result_by_row(k))
                line("    g.template store<" + kind(k) + ">(y" + std::to_string(k) + ", " +
                     std::to_string(k) + ");");
        line("}");
    }

    /// What walks call for each group. NVRTC takes generic lambdas for host functions, hence the structures.
    void write_calls() {
        const auto begin = [this](const std::string& name, const std::string& members,
                                  const std::string& parameters) {
            line("struct " + name + " {");
            if (!members.empty()) line("    " + members);
            line("    template <class Group> ECHO_MEMBER void operator()(const Group& g" + parameters +
                 ") const {");
        };
        for (std::size_t pass = 0; pass < p_.rows.passes; ++pass) {
            const std::string n = std::to_string(pass);
            begin("echo_reduce_" + n,
                  "echo_warp::value<echo_sums<" + std::to_string(text_.reductions(pass).size()) +
                      ">>& s; const echo_row& r;",
                  ", i64 index, int lane");
            line("        echo_pass_" + n + "(s[lane], g, r, index);\n    }\n};");
        }
        if (!p_.rows.writes_elements && p_.rows.by_row) return;
        begin("echo_write", p_.rows.by_row ? "const echo_row& r;" : "",
              p_.rows.by_row ? ", i64 index, int" : "");
        line(std::string("        echo_group(g") + (p_.rows.by_row ? ", r, index" : "") + ");\n    }\n};");
    }

    void write_warp() {
        write_calls();
        line("ECHO_DEVICE void echo_run(const echo_params& p, const echo_warp& w) {");
        if (p_.rows.by_row)
            write_rows();
        else
            line("    echo_groups(p, w, echo_write());");
        line("}");
        write_layout();
        out_ += source_entry;
    }

    /// What the kernel is given, or for one layout the same with all but addresses as constants.
    void write_layout() {
        if (layout_)
            out_ += text_of_layout(*layout_, operands_);
        else
            line("ECHO_DEVICE const echo_params& echo_laid_out(const echo_params& p) { return p; }");
    }
    void write_rows() {
        line("    for (u64 row = w.index(); row < p.shape.rows; row += w.count()) {");
        line("        i64 at[ECHO_OPERANDS] = {};");
        line("        echo_offsets(at, p.operand, row, p.shape.outer);");
        line("        echo_row r;");
        line("        echo_row_0(r, p.shape.row_length);");
        for (std::size_t pass = 0; pass < p_.rows.passes; ++pass) {
            const std::string n = std::to_string(pass);
            const auto sums = text_.reductions(pass);
            const std::string type = "echo_warp::value<echo_sums<" + std::to_string(sums.size()) + ">>";
            line("        {");
            line("            " + type + " s;");
            line("            w.lanes([&](int lane) { echo_none_" + n + "(s[lane]); });");
            line("            echo_walk(p, w, at, echo_reduce_" + n + "{s, r});");
            line("            for (int distance = 16; distance > 0; distance /= 2) {");
            line("                " + type + " other = w.across(s, distance);");
            line("                w.lanes([&](int lane) { echo_both_" + n + "(s[lane], other[lane]); });");
            line("            }");
            line("            const auto first = w.first(s);");
            for (std::size_t k = 0; k < sums.size(); ++k)
                line("            r." + text_.v(sums[k]) + " = first.of[" + std::to_string(k) + "];");
            line("        }");
            line("        echo_row_" + std::to_string(pass + 1) + "(r, p.shape.row_length);");
        }
        if (p_.rows.writes_elements) line("        echo_walk(p, w, at, echo_write{r});");
        line("        w.lanes([&](int lane) {\n            if (lane != 0) return;");
        for (std::size_t k = 0; k < p_.results.size(); ++k)
            if (p_.result_by_row(k))
                line("            echo_store_one<" + kind(k) + ">(r." + text_.v(p_.results[k]) +
                     ", p.operand[" + std::to_string(k) + "], at[" + std::to_string(k) + "]);");
        line("        });\n    }");
    }

    const run_time_program& p_;
    step_text text_{p_};
    const launch_shape* layout_;
    std::span<const launch_operand> operands_;
    std::string out_;
};

} // namespace detail

/// The kernel `echo_fused` of a program. It is valid CUDA for NVRTC without any include path, and valid C++17, where it
/// is a function of (parameters, warp, warps). Its parameters are a `launch_shape` and one `launch_operand` for each
/// result and operand, in this order. O(steps × passes).
inline std::string source_of(const run_time_program& p) {
    return detail::source_writer(p, nullptr, {}).write();
}
/// The same for one layout: extents and strides are constants in it, and of its parameters only addresses are looked
/// at.
inline std::string source_of(const run_time_program& p, const launch_shape& shape,
                             std::span<const launch_operand> operands) {
    return detail::source_writer(p, &shape, operands).write();
}

} // namespace echo::cuda::fused
