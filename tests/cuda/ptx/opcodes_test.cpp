// SPDX-License-Identifier: BSL-1.0
// The interpreter itself: PTX written by hand, whose results the PTX ISA says, and the checks, each of which must
// fire.
#include "machine.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

using namespace ptx;

namespace {

/// A kernel of two pointers: `out` has 8 bytes for each thread, at %rd3; `in` begins at %rd4. %r1 is the thread.
std::string kernel(const std::string& body, const std::string& directives = "") {
    return ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n.param .u64 "
           "k_param_0,\n.param .u64 k_param_1\n)\n{\n"
           ".reg .pred %p<8>;\n.reg .b16 %rs<16>;\n.reg .b32 %r<32>;\n.reg .f32 %f<16>;\n.reg .b64 "
           "%rd<32>;\n.reg .f64 %fd<8>;\n" +
           directives +
           "ld.param.u64 %rd1, [k_param_0];\nld.param.u64 %rd4, [k_param_1];\nmov.u32 %r1, "
           "%tid.x;\nmul.wide.u32 %rd2, %r1, 8;\n"
           "add.s64 %rd3, %rd1, %rd2;\n" +
           body + "ret;\n}\n";
}

struct outcome {
    std::vector<std::uint64_t> out;
    counts counted;
};

/// Runs it over so many threads of a block, and blocks.
outcome run(const std::string& text, std::uint32_t threads = 32, std::uint32_t blocks = 1, options how = {}) {
    module m("test", text);
    machine on;
    on.how = how;
    std::vector<std::uint64_t> out(threads), in(64);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = i;
    on.global.add(out.data(), 8 * out.size(), "out");
    on.global.add(in.data(), 8 * in.size(), "in");
    on.global.written(in.data(), 8 * in.size());
    const void *a = out.data(), *b = in.data();
    const void* const arguments[] = {&a, &b};
    const function* f = m.find("k");
    REQUIRE(f);
    on.launch(m, *f, {blocks, 1, 1}, {threads, 1, 1}, 0, arguments, "k");
    return {out, on.counted.at("k")};
}

/// The value of %rd9 in lane 0.
std::uint64_t value(const std::string& body) {
    return run(kernel(body + "st.global.u64 [%rd3], %rd9;\n")).out[0];
}

std::string hex(std::uint32_t bits) {
    char text[16];
    std::snprintf(text, sizeof text, "0f%08X", bits);
    return text;
}
/// Of one, two or three numbers of single precision.
std::uint32_t single(const std::string& opcode, std::initializer_list<std::uint32_t> of) {
    std::string text;
    int n = 1;
    std::string list = "%f9";
    for (const auto bits : of) {
        text += "mov.f32 %f" + std::to_string(n) + ", " + hex(bits) + ";\n";
        list += ", %f" + std::to_string(n++);
    }
    return static_cast<std::uint32_t>(
        value(text + opcode + " " + list + ";\nmov.b32 %r9, %f9;\ncvt.u64.u32 %rd9, %r9;\n"));
}
std::uint64_t whole(const std::string& opcode, const std::string& operands, const std::string& type = "u32") {
    const bool wide = type == "u64";
    return value(opcode + (wide ? " %rd9, " : " %r9, ") + operands + ";\n" +
                 (wide ? "" : "cvt.u64.u32 %rd9, %r9;\n"));
}
std::uint64_t predicate(const std::string& text) { return value(text + "selp.u64 %rd9, 1, 0, %p1;\n"); }

/// What the fault says; empty if there is none.
std::string fault_of(const std::string& text, std::uint32_t threads = 32, std::uint32_t blocks = 1,
                     options how = {}) {
    try {
        run(text, threads, blocks, how);
    } catch (const fault& e) {
        return e.what();
    }
    return "";
}

constexpr std::uint32_t nan_bits = 0x7fffffff, infinity = 0x7f800000, one = 0x3f800000,
                        minus_zero = 0x80000000, smallest = 1;

} // namespace

TEST_CASE("numbers of single precision: one NaN, zeros with signs, subnormals, infinities") {
    CHECK(single("add.f32", {0x7fc12345, one}) == nan_bits);
    CHECK(single("mul.f32", {0xffc00001, one}) == nan_bits);
    CHECK(single("sub.f32", {infinity, infinity}) == nan_bits);
    CHECK(single("fma.rn.f32", {0, infinity, one}) == nan_bits);
    CHECK(single("add.f32", {minus_zero, minus_zero}) == minus_zero);
    CHECK(single("add.f32", {minus_zero, 0}) == 0);
    CHECK(single("add.f32", {smallest, smallest}) == 2);
    CHECK(single("add.ftz.f32", {smallest, smallest}) == 0);
    CHECK(single("mul.ftz.f32", {0x80000001, one}) == minus_zero);
    CHECK(single("add.sat.f32", {one, one}) == one);
    CHECK(single("cvt.sat.f32.f32", {0x7fc00000}) == 0);
    CHECK(single("cvt.sat.f32.f32", {0xbf800000}) == 0);
    CHECK(single("div.rn.f32", {one, 0x40400000}) == 0x3eaaaaab);
    CHECK(single("rcp.rn.f32", {minus_zero}) == 0xff800000);
    CHECK(single("sqrt.rn.f32", {0x40000000}) == 0x3fb504f3);
    CHECK(single("sqrt.rn.f32", {0xbf800000}) == nan_bits);
    CHECK(single("fma.rn.f32", {0x3f800001, 0x3f800001, 0xbf800002}) ==
          0x28800000); // the product is not rounded
    CHECK(single("fma.rm.f32", {one, one, 0x33000000}) == one);
    CHECK(single("add.rp.f32", {one, 0x33000000}) == 0x3f800001);
    CHECK(single("min.f32", {0x7fc12345, one}) == one);
    CHECK(single("max.f32", {0x7fc12345, 0x7fc00000}) == nan_bits);
    CHECK(single("max.f32", {minus_zero, 0}) == 0);
    CHECK(single("min.f32", {0, minus_zero}) == minus_zero);
    CHECK(single("neg.f32", {0}) == minus_zero);
    CHECK(single("abs.f32", {0xff800000}) == infinity);
    CHECK(single("copysign.f32", {0xbf800000, 0x40000000}) == 0xc0000000);
    CHECK(single("mov.f32", {0xffc12345}) == 0xffc12345);
    CHECK(single("ex2.approx.ftz.f32", {0x40400000}) == 0x41000000);
    CHECK(single("ex2.approx.ftz.f32", {smallest}) == one);
    CHECK(single("ex2.approx.ftz.f32", {0xff800000}) == 0);
    CHECK(single("rcp.approx.ftz.f32", {0x40800000}) == 0x3e800000);
    CHECK(single("rcp.approx.ftz.f32", {smallest}) == infinity);
    CHECK(single("cvt.rni.f32.f32", {0x40200000}) == 0x40000000); // 2.5
    CHECK(single("cvt.rmi.f32.f32", {0xbf000000}) == 0xbf800000);
}

TEST_CASE("approximations are off as far as they may be") {
    const auto text = kernel(
        "mov.f32 %f1, 0f3FC00000;\nrcp.approx.ftz.f32 %f2, %f1;\nmov.b32 %r2, %f2;\ncvt.u64.u32 %rd9, %r2;\n"
        "st.global.u64 [%rd3], %rd9;\n");
    CHECK(run(text).out[0] == 0x3f2aaaab);
    CHECK(run(text, 32, 1, {.approximation = 1}).out[0] == 0x3f2aaaac);
    CHECK(run(text, 32, 1, {.approximation = -1}).out[0] == 0x3f2aaaaa);
}

TEST_CASE("numbers of 16 bits") {
    const auto half = [&](std::uint32_t bits) { // to half precision and back
        return value("mov.f32 %f1, " + hex(bits) + ";\ncvt.rn.f16.f32 %rs1, %f1;\ncvt.u64.u16 %rd9, %rs1;\n");
    };
    CHECK(half(one) == 0x3c00);
    CHECK(half(0x477fe000) == 0x7bff);
    CHECK(half(0x477ff000) == 0x7c00); // 65520 is infinite
    CHECK(half(0x33000000) == 0);      // 2^-25, a tie
    CHECK(half(0x33000001) == 1);
    CHECK(half(0xb8800000) == 0x8400);
    CHECK(half(0x387fe000) == 0x0400); // a tie, to even
    CHECK(half(0x387fc000) == 0x03ff);
    CHECK(half(0xffc12345) == 0x7fff);
    const auto bfloat = [&](std::uint32_t bits) {
        return value("mov.f32 %f1, " + hex(bits) +
                     ";\ncvt.rn.bf16.f32 %rs1, %f1;\ncvt.u64.u16 %rd9, %rs1;\n");
    };
    CHECK(bfloat(0x3f808000) == 0x3f80); // a tie, to even
    CHECK(bfloat(0x3f818000) == 0x3f82);
    CHECK(bfloat(0x7f7fffff) == 0x7f80);
    CHECK(bfloat(0x7f800001) == 0x7fff);
    const auto back = [&](const std::string& bits) {
        return value("mov.u16 %rs1, " + bits +
                     ";\ncvt.f32.f16 %f1, %rs1;\nmov.b32 %r2, %f1;\ncvt.u64.u32 %rd9, %r2;\n");
    };
    CHECK(back("0x0001") == 0x33800000);
    CHECK(back("0x8400") == 0xb8800000);
    CHECK(back("0x7e12") == nan_bits);
}

TEST_CASE("integers") {
    CHECK(whole("add.s32", "-1, 3") == 2);
    CHECK(whole("sub.s32", "0, 1") == 0xffffffff);
    CHECK(whole("mul.lo.s32", "65536, 65537") == 65536);
    CHECK(whole("mul.hi.u32", "0x80000000, 4") == 2);
    CHECK(whole("mul.hi.s32", "-1, 2") == 0xffffffff);
    CHECK(whole("mul.wide.s32", "-2, 3", "u64") == static_cast<std::uint64_t>(-6));
    CHECK(whole("mad.lo.s32", "3, 4, 5") == 17);
    CHECK(whole("div.s32", "-7, 2") == static_cast<std::uint32_t>(-3));
    CHECK(whole("rem.s32", "-7, 2") == 0xffffffff);
    CHECK(whole("div.u32", "-7, 2") == 0x7ffffffc);
    CHECK(whole("shl.b32", "1, 32") == 0);
    CHECK(whole("shl.b32", "1, 31") == 0x80000000);
    CHECK(whole("shr.s32", "-8, 40") == 0xffffffff);
    CHECK(whole("shr.u32", "-8, 1") == 0x7ffffffc);
    CHECK(whole("min.s32", "-1, 1") == 0xffffffff);
    CHECK(whole("max.u32", "-1, 1") == 0xffffffff);
    CHECK(whole("popc.b32", "0xf0f0") == 8);
    CHECK(whole("clz.b32", "1") == 31);
    CHECK(whole("brev.b32", "1") == 0x80000000);
    CHECK(whole("bfi.b32", "0xff, 0, 4, 4") == 0xf0);
    CHECK(whole("bfe.u32", "0xabcd, 4, 8") == 0xbc);
    CHECK(whole("bfe.s32", "0xabcd, 8, 8") == 0xffffffab);
    CHECK(whole("prmt.b32", "0x33221100, 0x77665544, 0x5410") == 0x55441100);
    CHECK(whole("prmt.b32", "0x80000000, 0, 0xb") == 0x000000ff);
    CHECK(whole("lop3.b32", "0xf0, 0xcc, 0xaa, 0x96") == (0xf0 ^ 0xcc ^ 0xaa));
    CHECK(whole("shf.l.wrap.b32", "0x80000000, 1, 1") == 3);
    CHECK(whole("not.b32", "0") == 0xffffffff);
    CHECK(value("mov.u32 %r2, -1;\ncvt.s64.s32 %rd9, %r2;\n") == ~std::uint64_t{0});
    CHECK(value("mov.u32 %r2, -1;\ncvt.u64.u32 %rd9, %r2;\n") == 0xffffffff);
    CHECK(value("mov.u32 %r2, 511;\ncvt.s8.s32 %rs1, %r2;\ncvt.s64.s16 %rd9, %rs1;\n") == ~std::uint64_t{0});
    CHECK(value("mov.f32 %f1, 0fC0200000;\ncvt.rzi.s32.f32 %r2, %f1;\ncvt.s64.s32 %rd9, %r2;\n") ==
          static_cast<std::uint64_t>(-2));
    CHECK(value("mov.f32 %f1, 0f7FC00000;\ncvt.rzi.s32.f32 %r2, %f1;\ncvt.u64.u32 %rd9, %r2;\n") == 0);
    CHECK(value("mov.u64 %rd5, 16777217;\ncvt.rn.f32.u64 %f1, %rd5;\nmov.b32 %r2, %f1;\ncvt.u64.u32 %rd9, "
                "%r2;\n") == 0x4b800000);
    CHECK(
        value("mov.b64 %rd5, 0x1122334455667788;\nmov.b64 {%r2, %r3}, %rd5;\nmov.b64 %rd9, {%r3, %r2};\n") ==
        0x5566778811223344);
}

TEST_CASE("comparisons of numbers and of NaN") {
    const auto compare = [&](const std::string& how, std::uint32_t a, std::uint32_t b) {
        return predicate("mov.f32 %f1, " + hex(a) + ";\nmov.f32 %f2, " + hex(b) + ";\nsetp." + how +
                         ".f32 %p1, %f1, %f2;\n");
    };
    CHECK(compare("eq", 0, minus_zero) == 1);
    CHECK(compare("ne", nan_bits, one) == 0);
    CHECK(compare("neu", nan_bits, one) == 1);
    CHECK(compare("ltu", nan_bits, one) == 1);
    CHECK(compare("lt", nan_bits, one) == 0);
    CHECK(compare("nan", one, nan_bits) == 1);
    CHECK(compare("num", one, one) == 1);
    CHECK(predicate("setp.lt.s32 %p1, -1, 0;\n") == 1);
    CHECK(predicate("setp.lt.u32 %p1, -1, 0;\n") == 0);
    CHECK(predicate("setp.eq.s32 %p2|%p1, 1, 1;\n") == 0);
    CHECK(predicate("setp.eq.s32 %p2, 1, 1;\nsetp.lt.and.s32 %p1, 0, 1, !%p2;\n") == 0);
    CHECK(predicate("setp.eq.s32 %p2, 1, 1;\nnot.pred %p1, %p2;\n") == 0);
}

TEST_CASE("lanes: votes, shuffles, ways that part and meet") {
    const std::string vote =
        "and.b32 %r2, %r1, 1;\nsetp.eq.s32 %p1, %r2, 1;\nvote.sync.ballot.b32 %r3, %p1, -1;\n"
        "cvt.u64.u32 %rd9, %r3;\nst.global.u64 [%rd3], %rd9;\n";
    CHECK(run(kernel(vote)).out[5] == 0xaaaaaaaa);
    const auto shuffled = run(kernel("shfl.sync.bfly.b32 %r2|%p1, %r1, 1, 31, -1;\ncvt.u64.u32 %rd9, "
                                     "%r2;\nst.global.u64 [%rd3], %rd9;\n"));
    CHECK(shuffled.out[4] == 5);
    const auto up = run(kernel(
        "shfl.sync.up.b32 %r2|%p1, %r1, 2, 0, -1;\nselp.b32 %r3, %r2, 99, %p1;\ncvt.u64.u32 %rd9, %r3;\n"
        "st.global.u64 [%rd3], %rd9;\n"));
    CHECK(up.out[1] == 99);
    CHECK(up.out[9] == 7);
    // A loop that each lane leaves at another time, and a branch within it; all meet behind it.
    const auto loop =
        run(kernel("mov.u32 %r2, 0;\nmov.u32 %r5, 0;\n$L1:\nsetp.ge.u32 %p1, %r2, %r1;\n@%p1 bra $L3;\n"
                   "and.b32 %r3, %r2, 1;\nsetp.eq.s32 %p2, %r3, 0;\n@%p2 bra $L2;\nadd.s32 %r5, %r5, 10;\n"
                   "$L2:\nadd.s32 %r2, %r2, 1;\nbra.uni $L1;\n$L3:\nvote.sync.ballot.b32 %r6, %p1, -1;\n"
                   "add.s32 %r5, %r5, %r2;\ncvt.u64.u32 %rd9, %r5;\nst.global.u64 [%rd3], %rd9;\n"));
    for (std::uint64_t i = 0; i < 32; ++i) CHECK(loop.out[i] == i + i / 2 * 10);
    // Lanes that leave early are not waited for.
    const auto left =
        run(kernel("mov.u64 %rd9, 7;\nst.global.u64 [%rd3], %rd9;\nsetp.gt.u32 %p1, %r1, 3;\n@%p1 ret;\n"
                   "vote.sync.ballot.b32 %r3, %p1, 15;\nmov.u64 %rd9, 8;\nst.global.u64 [%rd3], %rd9;\n"));
    CHECK(left.out[3] == 8);
    CHECK(left.out[4] == 7);
    CHECK(run(kernel(vote)).counted.sectors_stored - 8 <= 1); // 256 bytes, wherever they begin
}

TEST_CASE("shared memory, barriers, atomic operations") {
    const std::string shared = ".shared .align 8 .b8 s[512];\n";
    const std::string through =
        "mov.u64 %rd5, s;\nadd.s64 %rd6, %rd5, %rd2;\nst.shared.u64 [%rd6], %rd2;\nbar.sync 0;\n"
        "xor.b32 %r2, %r1, 63;\nmul.wide.u32 %rd7, %r2, 8;\nadd.s64 %rd8, %rd5, %rd7;\nld.shared.u64 %rd9, "
        "[%rd8];\n"
        "st.global.u64 [%rd3], %rd9;\n";
    const auto exchanged = run(kernel(through, shared), 64);
    for (std::uint64_t i = 0; i < 64; ++i) CHECK(exchanged.out[i] == 8 * (63 - i));
    auto without = through;
    without.erase(without.find("bar.sync 0;\n"), 12);
    CHECK(fault_of(kernel(without, shared), 64).find("never written") != std::string::npos);
    const auto sum = run(kernel("atom.global.add.u64 %rd9, [%rd4], 1;\nst.global.u64 [%rd3], %rd9;\n"), 64);
    CHECK(sum.out[63] == 63);
    const std::string local = ".local .align 8 .b8 __local_depot0[16];\n";
    const auto own = run(kernel("mov.u64 %rd5, __local_depot0;\ncvta.local.u64 %rd6, %rd5;\nst.local.u64 "
                                "[%rd5+8], %rd2;\nld.u64 %rd9, [%rd6+8];\n"
                                "st.global.u64 [%rd3], %rd9;\n",
                                local));
    CHECK(own.out[7] == 56);
}

TEST_CASE("an opcode that is not known is named, with its line") {
    const std::string text = kernel("sad.u32 %r2, %r1, 1, 2;\n"), said = fault_of(text);
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("sad")), '\n');
    CHECK(said.find("the opcode sad.u32") != std::string::npos);
    CHECK(said.find("PTX line " + std::to_string(line) + ":") != std::string::npos);
}

TEST_CASE("every check fires") {
    const auto contains = [](const std::string& said, const std::string& words) {
        INFO(said);
        CHECK(said.find(words) != std::string::npos);
    };
    contains(fault_of(kernel("add.s32 %r2, %r3, 1;\n")), "reads %r3, which was never written");
    contains(fault_of(kernel("setp.eq.s32 %p1, %r1, 3;\n@%p1 mov.u32 %r2, 1;\nadd.s32 %r3, %r2, 1;\n")),
             "lane 0: reads %r2");
    contains(fault_of(kernel("ld.global.u64 %rd9, [%rd4+512];\n")), "outside of every allocation");
    contains(fault_of(kernel(
                 "mul.wide.u32 %rd6, %r1, 24;\nadd.s64 %rd7, %rd4, %rd6;\nld.global.u64 %rd9, [%rd7];\n")),
             "lane 22");
    contains(fault_of(kernel("ld.global.v2.u64 {%rd8, %rd9}, [%rd4+504];\n")), "is not aligned");
    contains(fault_of(kernel("ld.global.u64 %rd9, [%rd4+4];\n")), "is not aligned");
    contains(fault_of(kernel("ld.global.u64 %rd9, [%rd3];\n")), "of out, which was never written");
    contains(fault_of(kernel("ld.param.u64 %rd9, [k_param_1+8];\n")), "past the end of the parameters");
    contains(fault_of(kernel("setp.lt.u32 %p1, %r1, 16;\n@%p1 vote.sync.ballot.b32 %r3, %p1, -1;\n")),
             "does not come along");
    contains(fault_of(kernel("setp.lt.u32 %p1, %r1, 16;\nvote.sync.ballot.b32 %r3, %p1, 0xffff;\n")),
             "without being named");
    contains(
        fault_of(kernel("setp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.idx.b32 %r3, %r1, 20, 31, 0xffff;\n")),
        "which does not come along");
    contains(fault_of(kernel("setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.warp.sync -1;\n")), "does not come along");
    contains(fault_of(kernel("setp.lt.u32 %p1, %r1, 16;\n@%p1 bra.uni $L1;\n$L1:\n")), "different ways");
    contains(fault_of(kernel("setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.sync 0;\n")), "is not at the barrier");
    contains(fault_of(kernel("st.global.u64 [%rd1], %rd2;\n")),
             "lane 1: writes out where lane 0 of the same warp writes");
    contains(fault_of(kernel("st.global.u64 [%rd3], %rd2;\n"), 32, 2),
             "where lane 0 of warp 0 of the grid writes");
    contains(fault_of(kernel("st.global.u64 [%rd3], %rd2;\nxor.b32 %r2, %r1, 1;\nmul.wide.u32 %rd6, %r2, "
                             "8;\nadd.s64 %rd7, %rd1, %rd6;\n"
                             "ld.global.u64 %rd9, [%rd7];\n")),
             "of the same warp writes");
    // The same with a barrier of the warp between them is no fault.
    CHECK(fault_of(kernel("st.global.u64 [%rd3], %rd2;\nbar.warp.sync -1;\nxor.b32 %r2, %r1, "
                          "1;\nmul.wide.u32 %rd6, %r2, 8;\n"
                          "add.s64 %rd7, %rd1, %rd6;\nld.global.u64 %rd9, [%rd7];\n"))
              .empty());
    // Read by a warp and written by another; and in the other order.
    contains(
        fault_of(
            kernel(
                "ld.global.u64 %rd9, [%rd4];\nsetp.eq.s32 %p1, %r1, 32;\n@%p1 st.global.u64 [%rd4], %rd9;\n"),
            64),
        "where several");
    contains(fault_of(kernel("setp.eq.s32 %p1, %r1, 0;\n@%p1 st.global.u64 [%rd4], %rd2;\nbar.warp.sync "
                             "-1;\nld.global.u64 %rd9, [%rd4];\n"),
                      64),
             "warp 0 of the grid writes");
    contains(fault_of(kernel("div.u32 %r2, %r1, %r1;\nadd.s32 %r3, %r2, 1;\n")), "lane 0: reads %r2");
    contains(fault_of(kernel("$L1:\nbra.uni $L1;\n"), 32, 1, {.approximation = 0, .most_steps = 1000}),
             "does not end");
    contains(fault_of(kernel("trap;\n")), "a trap");
}
