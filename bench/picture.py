# SPDX-License-Identifier: BSL-1.0
"""Pictures as small SVG files: what matplotlib repeats for each mark stands once, and a coordinate has one decimal.

A picture's words stay words, and the same figure gives the same file."""
import re

DROPPED = (r"<\?xml.*?\?>", r"<!DOCTYPE.*?>", r"<metadata>.*?</metadata>", r"<!--.*?-->", r' transform="rotate\(-?0 [^"]*"')
COORDINATES = re.compile(r' (?:d|x|y|width|height|transform)="[^"]*"')
DECIMALS = 1


def rounded(match):
    """A number with at most DECIMALS decimals."""
    return f"{round(float(match[0]), DECIMALS) + 0:g}"


def small(text):
    """The same picture in fewer bytes; a small one stays as it is."""
    for pattern in DROPPED:
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    text = COORDINATES.sub(lambda one: re.sub(r"\s*([MLCQz])\s*", r"\1", re.sub(r"-?\d+\.\d+", rounded, one[0])), text)
    classes = {}
    text = re.sub(r'style="([^"]*)"', lambda one: f'class="{classes.setdefault(one[1], f"c{len(classes)}")}"', text)
    rules = "".join(f"\n.{name}{{{style}}}" for style, name in classes.items())
    text = text.replace("</style>", f"{rules}</style>", 1)
    text = without_bare_groups(text)
    return re.sub(r">\s+<", ">\n<", text).strip() + "\n"


def without_bare_groups(text):
    """Without the groups that say nothing but a name."""
    opened = []

    def tag(match):
        if match[0] != "</g>":
            opened.append(re.fullmatch(r'<g(?: id="[^"]*")?>', match[0]) is None)
            return match[0] if opened[-1] else ""
        return match[0] if opened.pop() else ""

    return re.sub(r"<g(?: [^>]*)?>|</g>", tag, text)


def plots():
    """matplotlib's pyplot, set up for such pictures."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "echo", "svg.fonttype": "none", "font.size": 9}
    import matplotlib.pyplot

    return matplotlib.pyplot


def save(figure, file):
    """Writes a figure of matplotlib."""
    figure.savefig(file, metadata={"Date": None})
    file.write_text(small(file.read_text(encoding="utf-8")), encoding="utf-8")
