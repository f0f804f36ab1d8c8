# SPDX-License-Identifier: BSL-1.0
"""The picture of the fronts: Echo's against PyTorch's points."""
import picture

plt = picture.plots()

SHOWN = (("resnet50", "ResNet-50, batch 64"), ("bert_base", "BERT-base, batch 32, 128 tokens"),
         ("gpt2", "GPT-2, batch 8, 512 tokens"), ("nmt", "NMT, batch 128, 50 words"))


def lowest(model):
    """What Echo needs at most for each peak: its front, and what it needed at PyTorch's peaks. From high to low."""
    known = [(point["peak_bytes"], point["recompute_time_ratio"]) for point in model["front"]]
    known += [(point["peak"], point["echo"]) for point in model["points"] if point["echo"] is not None]
    kept = []
    for peak, overhead in sorted(known):
        if not kept or overhead < kept[-1][1]:
            kept.append((peak, overhead))
    kept.append((max(model["baseline"], kept[-1][0]), kept[-1][1]))
    kept.reverse()
    return [peak / 1e9 for peak, _ in kept], [100 * overhead for _, overhead in kept]


def fronts(models, torch, file):
    found = {model["model"]: model for model in models}
    figure, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained")
    for axis, (name, title) in zip(axes.flat, SHOWN):
        if name not in found:
            continue
        points = torch[name]["points"]
        peaks, overheads = lowest(found[name])
        axis.step(peaks, overheads, where="pre", color="tab:blue", linewidth=1.5, label="Echo")
        axis.plot([point["peak"] / 1e9 for point in points], [100 * point["overhead"] for point in points], "x",
                  color="tab:red", label="PyTorch, budget 1.0 to 0.1")
        mirror = found[name]["mirror"]
        axis.plot(mirror["peak"] / 1e9, 100 * mirror["overhead"], "^", color="tab:gray", label="mirror")
        axis.axvline(found[name]["baseline"] / 1e9, color="black", linewidth=0.6, linestyle=":")
        highest = max([100 * point["overhead"] for point in points] + [1])
        axis.set(title=title, xlabel="peak, GB", ylabel="recompute time, % of a step", xlim=(0, None),
                 ylim=(-0.03 * highest, 1.1 * highest))
        axis.grid(linewidth=0.3)
    axes.flat[0].legend(frameon=False)
    picture.save(figure, file)
    print(f"plotted to {file.name}")
