#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Results are written with the day and the machine that they are from, and printed as a table.

The whole result goes to build/bench/results/PIECE.json, and what is read of it (kept.py) to bench/results/PIECE.json.

    python3 bench/results.py FILE…      puts results that programs have written whole, each PIECE.json, into bench/results
"""
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

import kept

ROOT = pathlib.Path(__file__).resolve().parent.parent


def processor():
    """Its name, as Linux gives it."""
    file = pathlib.Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def stamp():
    """The day, the processor and its cores."""
    return {"date": datetime.date.today().isoformat(), "machine": {"cpu": processor(), "cores": len(os.sched_getaffinity(0))}}


def machine():
    """The processor, its cores, the system and the compiler."""
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return {**stamp()["machine"],
            "system": f"{platform.system()} {platform.release()}", "compiler": compiler}


def file_of(piece):
    return ROOT / "bench" / "results" / f"{piece}.json"


def whole_file_of(piece):
    return ROOT / "build" / "bench" / "results" / f"{piece}.json"


def as_text(result):
    """As JSON, with a line for each record of a list, or of a dictionary, of records."""
    def dumped(value):
        return json.dumps(value, allow_nan=False, ensure_ascii=False)

    lines = []
    for key, value in result.items():
        if isinstance(value, list) and any(isinstance(one, dict) for one in value):
            text = "[\n" + ",\n".join(f"    {dumped(one)}" for one in value) + "\n  ]"
        elif isinstance(value, dict) and any(isinstance(one, dict) for one in value.values()):
            text = "{\n" + ",\n".join(f"    {dumped(name)}: {dumped(one)}" for name, one in value.items()) + "\n  }"
        else:
            text = dumped(value)
        lines.append(f"  {dumped(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def store(piece, result):
    """Writes what is read of a result to bench/results/PIECE.json."""
    file = file_of(piece)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(as_text(kept.kept(piece, result)), encoding="utf-8")
    print(f"written to {file.relative_to(ROOT)}", flush=True)


def save(piece, result):
    """Writes the whole result to build/bench/results/PIECE.json, and stores it."""
    whole = whole_file_of(piece)
    whole.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text(as_text(result), encoding="utf-8")
    print(f"all of it written to {whole.relative_to(ROOT)}", flush=True)
    store(piece, result)


def load(piece):
    """What bench/results has; None where nothing has been measured."""
    file = file_of(piece)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def write(piece, rows, **more):
    """Saves a result and prints the rows, dictionaries with the same keys, and so what else is a list."""
    result = {"date": datetime.date.today().isoformat(), "machine": machine(), **more, "rows": rows}
    print(f"{piece}, {result['date']}, {result['machine']['cpu']}, {result['machine']['cores']} cores, "
          f"{result['machine']['compiler']}")
    table(rows)
    for key, value in more.items():
        if isinstance(value, list):
            print(f"\n{key}:")
            table(value)
        else:
            print(f"{key}: {value}")
    save(piece, result)
    print(flush=True)


END_OF_TABLE = "<!-- end of table -->"


def around_section(file, mark):
    """What stands in a file before the section that begins with the line `mark`, a comment, and ends with END_OF_TABLE, and
    what stands behind it. Ends the program where the file has none."""
    text = file.read_text(encoding="utf-8")
    begin = text.find(mark)
    end = text.find(END_OF_TABLE, begin)
    if begin < 0 or end < 0:
        sys.exit(f"{file} holds no line '{mark}' with '{END_OF_TABLE}' behind it")
    return text[:begin], text[end + len(END_OF_TABLE):]


def put_section(file, section):
    """Puts a section in the place of the one that begins with the same line. Ends the program where the file has none."""
    before, behind = around_section(file, section.split("\n", 1)[0])
    file.write_text(before + section + behind, encoding="utf-8")


def table(rows):
    keys = list(rows[0]) if rows else []
    texts = [keys] + [[text(row[key]) for key in keys] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    for line in texts:
        print("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(line, widths))).rstrip())


def text(value):
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def main():
    for file in map(pathlib.Path, sys.argv[1:]):
        store(file.stem, json.loads(file.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
