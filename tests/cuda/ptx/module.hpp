// SPDX-License-Identifier: BSL-1.0
/// @file
/// PTX as it is read: modules, functions, instructions. Constants and special registers are registers too, which a
/// warp sets when it starts, so that an instruction reads nothing but registers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ptx {

class machine;
struct warp;
struct instruction;

/// Executes an instruction for the lanes of the mask.
using handler = void (*)(machine&, warp&, const instruction&, std::uint32_t lanes);

enum class space : std::uint8_t { generic, global, shared, local, parameter, constant };

/// A register, an address (a register and an offset), a vector of registers, a pair `p|q`, or a label.
struct operand {
    std::array<std::int32_t, 4> reg{-1, -1, -1, -1}; ///< -1: `_`, which takes anything
    std::uint8_t count = 0;
    bool address = false, negated = false;
    std::int64_t offset = 0;
    std::int32_t label = -1; ///< the instruction that it stands before
};

/// What follows an instruction.
enum class flow : std::uint8_t { next, branch, leave, barrier };

struct instruction {
    handler run = nullptr;
    std::vector<operand> operands;
    flow then = flow::next;
    std::int32_t guard = -1; ///< a predicate
    bool unless = false;     ///< executed where it is false
    bool uniform = false;    ///< all lanes go the same way: `.uni`
    space where = space::generic;
    std::int32_t target = -1; ///< of a branch
    /// Where lanes that went different ways meet again; the end of the function: its size.
    std::int32_t reconverges = -1;
    std::uint32_t line = 0;
    std::string text;
};

/// A variable in shared, local or parameter space, or a global one.
struct variable {
    space where = space::generic;
    std::uint64_t offset = 0, bytes = 0;
};

struct constant_register {
    std::int32_t reg;
    std::uint64_t value;
};
enum class special : std::uint8_t {
    tid_x,
    tid_y,
    tid_z,
    ntid_x,
    ntid_y,
    ntid_z,
    ctaid_x,
    ctaid_y,
    ctaid_z,
    nctaid_x,
    nctaid_y,
    nctaid_z,
    laneid,
    warpid,
    nwarpid,
    lanemask_eq,
    lanemask_lt,
    lanemask_le,
    lanemask_gt,
    lanemask_ge
};
struct special_register {
    std::int32_t reg;
    special which;
};

struct function {
    std::string name;
    std::uint32_t line = 0;
    std::uint64_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;
    std::int32_t registers = 0;
    std::vector<std::string> register_names;
    std::vector<variable> parameters;
    std::vector<instruction> code;
    std::vector<constant_register> constants;
    std::vector<special_register> specials;
};

/// A text, of which functions are read when they are asked for.
class module {
public:
    /// `name` is what faults call the text.
    module(std::string name, std::string text);

    /// Null where there is none. Throws `fault`, with the line, for what it cannot read and for unknown opcodes.
    const function* find(std::string_view name);
    std::vector<std::string> names();
    const std::string& text() const noexcept { return text_; }
    /// Puts another text in the place of a line, which is numbered from 1. Before a function is asked for.
    void replace_line(std::uint32_t line, const std::string& with);
    /// Variables in global memory: where they lie.
    const std::map<std::string, variable, std::less<>>& globals() { return scan(), globals_; }
    const std::string& name() const noexcept { return name_; }

private:
    struct place {
        std::size_t begin, end; ///< of the text
        std::uint32_t line;
    };
    std::string name_, text_;
    std::map<std::string, place, std::less<>> places_;
    std::map<std::string, variable, std::less<>> globals_;
    std::vector<std::unique_ptr<std::byte[]>> data_;
    std::unordered_map<std::string, std::unique_ptr<function>> read_;

    bool scanned_ = false;

    void scan();
    void declare_global(std::string_view statement, std::uint32_t line);
};

/// Sets `reconverges` of each branch: where all ways from it to the end of the function meet first.
void find_reconvergence(function& f);

/// What executes an opcode.
struct opcode {
    handler run = nullptr;
    flow then = flow::next;
    bool uniform = false;
    space where = space::generic;
};
/// Null for an opcode that the interpreter does not know.
const opcode* find_opcode(std::string_view name);

} // namespace ptx
