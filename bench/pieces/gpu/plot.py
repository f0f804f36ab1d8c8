# SPDX-License-Identifier: BSL-1.0
"""The pictures of bench/gpu: footprints, throughput against batch, and the course to a loss."""
import picture
from tables import NAMES

plt = picture.plots()

COLOURS = {"baseline": "black", "mirror": "tab:gray", "echo": "tab:blue", "min_cut": "tab:orange", "fused": "tab:green"}


def footprints(result, file):
    models = [model for model, rows in result["models"].items() if rows]
    if not models:
        return
    figure, axes = plt.subplots(1, len(models), figsize=(2.3 * len(models), 3), layout="constrained", squeeze=False)
    for axis, model in zip(axes[0], models):
        rows = result["models"][model]
        plans = [row["plan"] for row in rows]
        axis.bar(plans, [row["resident_bytes"] / 2**30 for row in rows], color="lightgray", label="residents")
        axis.bar(plans, [row["arena_bytes"] / 2**30 for row in rows], bottom=[row["resident_bytes"] / 2**30 for row in rows],
                 color=[COLOURS[plan] for plan in plans], label="arena")
        axis.set_title(NAMES[model])
        axis.tick_params(axis="x", rotation=60)
        axis.grid(axis="y", linewidth=0.3)
    axes[0][0].set_ylabel("GiB on the device")
    picture.save(figure, file)


def batches(result, file):
    models = list(dict.fromkeys(row["model"] for row in result["batches"]))
    if not models:
        return
    figure, axes = plt.subplots(1, len(models), figsize=(2.3 * len(models), 2.8), layout="constrained", squeeze=False)
    for axis, model in zip(axes[0], models):
        for plan, colour in COLOURS.items():
            rows = sorted((row["batch"], row["samples_per_s"]) for row in result["batches"] if (row["model"], row["plan"]) == (model, plan))
            if rows:
                axis.plot(*zip(*rows), marker=".", color=colour, label=plan)
        axis.set(title=NAMES[model], xlabel="batch", ylim=(0, None))
        axis.set_xscale("log", base=2)
        axis.grid(linewidth=0.3)
        axis.legend(frameon=False, fontsize=7)
    axes[0][0].set_ylabel("samples/s")
    picture.save(figure, file)


def learning(result, file):
    if not result["learning"]:
        return
    figure, axis = plt.subplots(figsize=(4, 2.8), layout="constrained")
    for row in result["learning"]:
        axis.plot(row["curve_seconds"], row["curve_losses"], color=COLOURS[row["plan"]], label=f"{row['plan']}, {row['batch']}")
    axis.set(title="NMT's generated task", xlabel="s", ylabel="loss", ylim=(0, None))
    axis.grid(linewidth=0.3)
    axis.legend(frameon=False, fontsize=7)
    picture.save(figure, file)


def all_of(result, folder):
    footprints(result, folder / "gpu-footprints.svg")
    batches(result, folder / "gpu-batches.svg")
    learning(result, folder / "gpu-learning.svg")
