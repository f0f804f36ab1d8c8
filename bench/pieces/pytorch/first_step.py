# SPDX-License-Identifier: BSL-1.0
"""Compiles and runs the first step of a model with Echo, in a process of its own, on all cores and without measuring
costs, and adds to the rows that examples/pytorch/run wrote what part of it is Echo's own: reading the graph, planning
it and building the two halves. PyTorch's own partition, which its default makes too, is none of that."""
import json
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "pytorch"))

from measure import Training  # noqa: E402
from trained import MODELS  # noqa: E402

import echo_torch  # noqa: E402


def main():
    name, rows = sys.argv[1:]
    warnings.simplefilter("ignore")
    training = Training(MODELS[name], echo_torch.eager_backend(measure=False))
    begun = time.perf_counter()
    training.train(1)
    whole = time.perf_counter() - begun
    seconds = echo_torch.reports()[-1].seconds
    own = sum(seconds[part] for part in ("reading", "planning", "building"))
    with open(rows, encoding="utf-8") as file:
        told = json.load(file)
    for row in told["rows"]:
        if row["mode"] == "Echo":
            row["own_share"] = own / whole
    with open(rows, "w", encoding="utf-8") as file:
        json.dump(told, file)
    print(f"{name}: {100 * own / whole:.1f} % of {whole:.1f} s to the end of the first step are Echo's own")


if __name__ == "__main__":
    main()
