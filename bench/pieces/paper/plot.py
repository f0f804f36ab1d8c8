# SPDX-License-Identifier: BSL-1.0
"""The pictures: footprints of the four models under each system, and against the batch."""
import picture
from evaluate import LIMIT, MODELS, SYSTEMS

plt = picture.plots()

COLOURS = {"baseline": "black", "mirror": "tab:gray", "echo": "tab:blue", "min_cut": "tab:orange", "budget": "tab:green"}
SHOWN = {"feature maps": "tab:blue", "gradients in flight": "tab:cyan", "weights": "tab:red", "kept gradients": "tab:pink",
         "optimizer state": "tab:orange", "workspace": "tab:green", "untracked": "lightgray"}


def footprints(result, file):
    figure, axes = plt.subplots(1, 4, figsize=(9, 3.2), layout="constrained", sharey=True)
    for axis, row in zip(axes, result["footprints"]):
        bottoms = [0.0] * len(SYSTEMS)
        for name, colour in SHOWN.items():
            parts = [row[how]["by_structure"][name] / 1024 for how in SYSTEMS]
            axis.bar(SYSTEMS, parts, bottom=bottoms, color=colour, label=name, width=0.7)
            bottoms = [bottom + part for bottom, part in zip(bottoms, parts)]
        axis.set_title(MODELS[row["model"]])
        axis.tick_params(axis="x", rotation=60)
        axis.grid(axis="y", linewidth=0.3)
    axes[0].set_ylabel("footprint, GiB")
    axes[-1].legend(frameon=False, fontsize=7)
    picture.save(figure, file)


def batches(result, file):
    figure, axes = plt.subplots(1, 4, figsize=(9, 2.8), layout="constrained")
    for axis, model in zip(axes, MODELS):
        rows = [row for row in result["series"] if row["model"] == model and set(row["sizes"]) == {"batch"} and not row["what"].startswith("WMT")]
        for how in ("baseline", "mirror", "echo", "min_cut"):
            axis.plot([row["sizes"]["batch"] for row in rows], [row[how] / 1024 for row in rows], marker=".", color=COLOURS[how], label=how)
        axis.axhline(LIMIT / 1024, color="black", linewidth=0.6, linestyle=":")
        axis.set(title=MODELS[model], xlabel="batch", ylim=(0, None))
        axis.grid(linewidth=0.3)
    axes[0].set_ylabel("footprint, GiB")
    axes[0].legend(frameon=False, fontsize=7)
    picture.save(figure, file)


def all_of(result, folder):
    footprints(result, folder / "paper-footprints.svg")
    batches(result, folder / "paper-batches.svg")
