# SPDX-License-Identifier: BSL-1.0
"""Members that mean the same wherever they stand get their sentence from here, before Doxygen reads
the header.

They are what the language itself gives (a move, a comparison), and what a customisation point asks
for: `graph_traits` and `op_traits` describe their members once, at the head of their headers. Lines
keep their numbers. A member that has words of its own keeps them; of a deleted one, the reason beside
it is said.
"""

import pathlib
import re

MOVE = "Takes over what the other one holds, which holds nothing then."
ANYWHERE = [
    (
        r"friend (?:constexpr )?bool operator==\(.*\) *(?:noexcept *)?= *default;",
        "Equal where all members are.",
    ),
    (
        r"friend (?:constexpr )?auto operator<=>\(.*\) *(?:noexcept *)?= *default;",
        "By the members, in their order.",
    ),
    (r"(?:constexpr )?(\w+)\(\1&& *\w*\)", MOVE),
    (r"(\w+)& operator=\(\1&& *\w*\)", MOVE),
    (r"(?:constexpr )?(\w+)\(const \1& *\w*\)", "A copy that shares nothing with the other one."),
    (r"(\w+)& operator=\(const \1& *\w*\)", "A copy that shares nothing with the other one."),
    (r"~\w+\(\)", "Gives back what it holds."),
]
OPS = [
    (r"static constexpr std::string_view name\b", "What reports call the op."),
    (
        r"static constexpr auto forward\b",
        "Output from inputs, for one element or whole tensors: see op_traits.hpp.",
    ),
    (
        r"static constexpr (?:auto|echo::no_gradient_t|no_gradient_t) gradient\b",
        "The inputs' gradients from dy and from what they read of inputs and outputs: op_traits.hpp.",
    ),
    (
        r"static constexpr bool is_random\b",
        "The forward pass takes a uniform draw in [0, 1) as its last argument.",
    ),
    (r"static constexpr rerun_kind rerun\b", "Whether it may run again, and with what care."),
    (r"static constexpr storage_pairs inplace\b", "Which output may be written over which input."),
    (
        r"static constexpr bool gradient_inplace\b",
        "Whether the gradient may be written over what it is computed from.",
    ),
]
HOST = [
    (r"using graph = ", "The host's graph."),
    (r"using node = ", "What names a node: a handle, cheap to copy."),
    (r"using value = ", "One output of a node."),
    (r"static .*\bnodes\(", "All nodes, in execution order."),
    (r"static .*\binputs\(", "What the node reads, in its op's order."),
    (r"static .*\boutputs\(", "What is known of each tensor that the node makes."),
    (r"static .*\bphase\(", "What the node is for."),
    (r"static .*\bresults\(", "What must exist at the end."),
    (r"static .*\bfacts\(", "What is known of the node's op."),
    (r"static .*\bcontrol\(", "Nodes that run before this one though it reads nothing of them."),
    (r"static .*\bname\(", "What reports call the node."),
    (r"static .*\blayer\(", "The layer that reports count the node to."),
    (r"static .*\bflops\(", "Floating-point operations of the node."),
    (r"static .*\bworkspace\(", "Bytes that the node needs while it runs."),
    (r"static .*\btime_us\(", "The measured time of the node in microseconds, if there is one."),
    (r"static .*\bkeep\(", "Whether outputs of the node are never computed again."),
    (r"static .*\btrainable\(", "Whether the gradient of this input is a result."),
    (r"static .*\bclone\(", "The same node once more, on other inputs, in front of `before`."),
    (r"static .*\bredirect\(", "From now on this input of the reader is that value."),
    (r"static .*\bredirect_result\(", "From now on this result is that value."),
    (r"static .*\bmove\(", "The node runs in front of `before` from now on."),
    (
        r"static .*\bencode\(",
        "A node in front of `before` that makes the value in one bit per element.",
    ),
    (r"static .*\berase\(", "Takes a dead node away."),
]

FUNCTIONS = [
    (rf"(?:ECHO_HOST_DEVICE )?(?:friend )?constexpr [\w:<>]+ {name}\(", words)
    for name, words in [
        (r"operator\+(?=\(\w+ a\))", "The number itself."),
        (r"operator-(?=\(\w+ a\))", "The number with the other sign."),
        (r"operator\+", "Sum."),
        (r"operator-", "Difference."),
        (r"operator\*", "Product."),
        (r"operator/", "Quotient."),
        (r"operator>", "Whether the first is larger."),
        (r"operator<", "Whether the first is smaller."),
        (r"operator>=", "Whether the first is larger, or both are equal."),
        (r"operator<=", "Whether the first is smaller, or both are equal."),
        (r"operator==", "Whether they are equal."),
        (r"operator!=", "Whether they differ."),
        (r"operator!", "Whether it does not hold."),
        (r"operator&&", "Whether both hold."),
        (r"operator\|\|", "Whether one holds, or both."),
        ("exp", "e to that power."),
        ("log", "Natural logarithm."),
        ("tanh", "Hyperbolic tangent."),
        ("erf", "The error function."),
        ("sqrt", "Square root."),
        ("rsqrt", "1 over the square root."),
        ("sin", "Sine, of radians."),
        ("cos", "Cosine, of radians."),
        ("abs", "Without its sign."),
        ("pow", "The first to the power of the second."),
        ("max", "The larger of both."),
        ("min", "The smaller of both."),
    ]
]
FUNCTIONS += [
    (rf"inline constexpr double {name} =", words)
    for name, words in [
        ("ln2", "Natural logarithm of 2."),
        ("pi", "Half the length of the unit circle."),
        ("infinity", "Larger than every number."),
        ("not_a_number", "What an operation without a result gives."),
    ]
]
KERNELS = [
    (r"ECHO_HOST_DEVICE .*\btiles\(\) const", "How many tiles the warps share out."),
    (
        r"ECHO_HOST_DEVICE void operator\(\)\(Warp& w\) const",
        "What one warp does, on a device or on the host.",
    ),
    (r"(?:const )?T\* (?:x|dy);", "What is read: `n` elements."),
    (r"T\* (?:y|dx);", "What is written: `n` elements."),
    (r"(?:const )?std::uint32_t\* mask;", "One bit per element, in whole words."),
    (r"std::int64_t n;", "How many elements there are."),
    (r"tile_alignment at;", "Where the tiles begin, so that accesses are aligned."),
    (r"float scale;", "What kept elements are multiplied by."),
    (r"struct part_type\b", "A lane's registers for its elements of one part."),
    (r"(?:ECHO_HOST_DEVICE )?constexpr T get\(int k\)", "Element k of the part."),
    (r"ECHO_HOST_DEVICE static constexpr void parts\(", "Calls `f(part)` for each part of a tile."),
    (
        r"ECHO_HOST_DEVICE static constexpr int bit_of\(",
        "Which of a lane's 32 bits is that of element k of the part.",
    ),
    (r"ECHO_HOST_DEVICE (?:static )?constexpr int count\(\)", "Elements of the tile."),
    (r"ECHO_HOST_DEVICE void load\(Warp& w", "Reads a part of the tile that begins at `from`."),
    (
        r"ECHO_HOST_DEVICE void store\(Warp& w",
        "Writes `value(lane, k)` to a part of the tile that begins at `to`.",
    ),
    (
        r"ECHO_HOST_DEVICE void vote\(Warp& w",
        "Takes `bit(lane, k)` of a part's elements into account.",
    ),
    (
        r"ECHO_HOST_DEVICE auto words\(Warp&",
        "After all parts: the words of the tile, of which lane i has word i.",
    ),
    (
        r"ECHO_HOST_DEVICE auto unpack\(Warp&",
        "The other way: each lane gets the bits of its own elements.",
    ),
]
ANALYSIS = [
    (
        r"(?!return\b)(\w+)\((?:const )?[\w:]+(?:<[^>]*>)?& \w+",
        "Refers to what is given, which must outlive it.",
    ),
    (r"const snapshot& graph\(\) const", "The snapshot that it was made for."),
    (
        r"const candidates& facts\(\) const",
        "What may be done with the snapshot's nodes and values.",
    ),
    (r"static constexpr [\w:]+ (?:none|nobody|nowhere) =", "Stands for: there is none."),
    (r"std::size_t size\(\) const", "How many there are. O(1)."),
    (r"bool empty\(\) const", "Whether there is none. O(1)."),
    (r"progress_callback progress\{\};", "Called now and then with the part done, 0 to 1."),
    (r"bool encode = true;", "Encodings in one bit per element are candidates."),
    (r"host_abilities host\{\};", "What the host can do with a plan."),
    (r"step_id by\{\};", "The step that reads."),
    (r"node_id content\{\};", "The node that made what is read."),
    (r"footprint_result footprint\{\};", "What the replay of it found."),
    (r"bool is_live\(node_id n\) const", "Whether a plan runs the node."),
    (r"value_id base\(value_id v\) const", "The value that made the storage on which `v` lies."),
    (r"node_id node\{\};", "What is made, or runs."),
    (r"node_id at\{\};", "The backward node in front of which it happens."),
    (r"node_id node, from, to;", "The maker, and the uses between which it is kept."),
    (r"using capacity = ", "What an arc lets through."),
]


def rules_for(header: pathlib.Path) -> list[tuple[str, str]]:
    """Which sentences apply in this header."""
    parts = header.parts
    for folder, special in (
        ("ops", OPS),
        ("kernel", KERNELS),
        ("symbol", FUNCTIONS),
        ("analysis", ANALYSIS),
    ):
        if folder in parts:
            return special + ANYWHERE
    return (HOST if header.name.startswith("boost") else []) + ANYWHERE


def has_words(lines: list[str], at: int) -> bool:
    """Whether a comment of Doxygen's stands in front of the line, or behind it."""
    before = at - 1
    while before >= 0 and re.match(r"\s*(?:template\b|requires\b)", lines[before]):
        before -= 1
    return (
        "///" in lines[at]
        or "/**" in lines[at]
        or (before >= 0 and lines[before].lstrip().startswith("///"))
    )


NAME = r"\w+(?:\{[^{}]*\}| = [^,;{}]+)?"
KIND = r"(?:inline constexpr )?[\w:]+(?:<[^;=]*>)?"
SEVERAL = re.compile(rf"^(\s*)({KIND}) ({NAME}(?:, {NAME})+);(?:\s*///< (.*))?$")
DELETED = re.compile(r"= delete;(?:\s*// (.*))?$")


def parted(line: str, before: str, rules: list[tuple[str, str]], used: set[str]) -> str:
    """A line that declares several members at once, as one declaration each: Doxygen gives the
    words to one alone.
    """
    found = SEVERAL.match(line)
    if not found:
        return line
    indent, kind, names, words = found.groups()
    each = re.split(r", (?=\w+(?:\{| =|,|$))", names)
    if not words and before.lstrip().startswith("/// "):
        words = before.strip().removeprefix("/// ")
    if not words:
        for pattern, sentence in rules:
            if re.match(rf"\s*{pattern}", line):
                words = sentence
                used.add(pattern)
                break
        else:
            return line
    return indent + " ".join(f"/** {words} */ {kind} {name};" for name in each)


def spoken(header: pathlib.Path, text: str, used: set[str] | None = None) -> str:
    """The header with the sentences put in. The patterns of those that were are added to `used`."""
    given = text.splitlines()
    rules = rules_for(header)
    used = set() if used is None else used
    lines = [parted(line, before, rules, used) for before, line in zip(["", *given], given)]
    for at, line in enumerate(lines):
        for pattern, sentence in rules:
            if re.match(
                rf"\s*(?:\[\[nodiscard\]\] |explicit |inline )*{pattern}", line
            ) and not has_words(lines, at):
                first = at
                while first > 0 and re.match(r"\s*(?:template\b|requires\b)", lines[first - 1]):
                    first -= 1
                if deleted := DELETED.search(line):
                    sentence = f"There is none: {deleted[1]}." if deleted[1] else "There is none."
                else:
                    used.add(pattern)
                lines[first] = f"/** {sentence} */ {lines[first]}"
                break
    return "\n".join(lines) + "\n"
