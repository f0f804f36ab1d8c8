# SPDX-License-Identifier: BSL-1.0
"""The table of docs/onnx.md that says which node tests of onnx are refused, from the result of node_tests.py."""
import re

NAME = "tests/onnx/node_tests.py"
SECTION = re.compile(rf"<!-- table: {NAME} -->.*?<!-- end of table -->", re.DOTALL)


def section(result: dict) -> str:
    """With its marks."""
    rows = result["causes"].items()
    read = result["tests"] - sum(row["tests"] for _, row in rows)
    lines = [f"<!-- table: {NAME} -->", "",
             f"Of the {result['tests']:,} node tests of onnx {result['onnx']} {read:,} are read; every size of an output is "
             "that of the test's own data. The others:", "", "| cause | tests | ops |", "|---|--:|---|"]
    for cause, row in rows:
        lines.append(f"| {cause} | {row['tests']} | {', '.join(f'`{op}`' for op in row['ops'])} |")
    return "\n".join([*lines, "", "<!-- end of table -->"])
