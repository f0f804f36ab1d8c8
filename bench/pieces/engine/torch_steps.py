#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Training steps of PyTorch on the CPU, eager, timed: torch_steps.py resnet|lstm|cells FOLDER. The peer of `engine-steps peer`,
whose parameters and data it reads, and whose lines it speaks. `lstm` is torch.nn.LSTM; `cells` are the engine's ops one by one."""
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional

MODEL, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])


def memory(key):
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def tensors(file):
    """All that the engine wrote, by name; parameters are to be trained."""
    made, at = {}, 0
    data = (FOLDER / f"{file}.bin").read_bytes()
    for one in json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8")):
        kind = torch.float32 if one["type"] == "f32" else torch.int32
        tensor = torch.zeros(one["shape"], dtype=kind)
        if tensor.numel():
            tensor = torch.frombuffer(bytearray(data[at:at + 4 * tensor.numel()]), dtype=kind).reshape(one["shape"]).clone()
        at += 4 * tensor.numel()
        made[one["name"]] = tensor.requires_grad_() if one["parameter"] else tensor
    return made


def resnet(t):
    """ResNet with pre-activation, as examples/engine/models/resnet_graph.hpp has it."""
    images, labels = t["images"], t["labels"].long()

    def normal(name, x):
        gamma = None if name == "bn_data" else t[f"{name}.gamma"]
        return functional.batch_norm(x, t[f"{name}.moving_mean"], t[f"{name}.moving_variance"], gamma, t[f"{name}.beta"],
                                     training=True, momentum=0.1, eps=2e-5)

    def convolve(name, x, stride=1):
        w = t[f"{name}.weight"]
        return functional.conv2d(x, w, stride=stride, padding=w.shape[2] // 2)

    def unit(name, x, stride):
        relu1 = functional.relu(normal(f"{name}.bn1", x))
        y = convolve(f"{name}.conv1", relu1)
        y = convolve(f"{name}.conv2", functional.relu(normal(f"{name}.bn2", y)), stride)
        y = convolve(f"{name}.conv3", functional.relu(normal(f"{name}.bn3", y)))
        return y + (convolve(f"{name}.shortcut", relu1, stride) if f"{name}.shortcut.weight" in t else x)

    def loss():
        x = convolve("conv0", normal("bn_data", images), 2)
        x = functional.max_pool2d(functional.relu(normal("bn0", x)), 3, 2, 1)
        for stage in range(1, 5):
            k = 1
            while f"stage{stage}.unit{k}.conv1.weight" in t:
                x = unit(f"stage{stage}.unit{k}", x, 2 if stage > 1 and k == 1 else 1)
                k += 1
        x = functional.relu(normal("bn1", x)).mean((2, 3))
        return functional.cross_entropy(functional.linear(x, t["fc1.weight"], t["fc1.bias"]), labels)

    return loss


def lstm(t, fused):
    """The language model of steps.cpp. Its gates stand in PyTorch's order: in, forget, change, out."""
    tokens, labels = t["tokens"].long(), t["labels"].long()
    hidden = t["l0.h2h.weight"].shape[1]
    if fused:
        layers = torch.nn.LSTM(hidden, hidden, 2)
        for l in range(2):
            for own, name in (("i", "i2h"), ("h", "h2h")):
                for kind in ("weight", "bias"):
                    t[f"l{l}.{name}.{kind}"] = torch.nn.Parameter(t[f"l{l}.{name}.{kind}"].detach())
                    setattr(layers, f"{kind}_{own}h_l{l}", t[f"l{l}.{name}.{kind}"])
        layers.flatten_parameters()

    def cell(l, x):
        h = c = x.new_zeros(x.shape[1:])
        shown = []
        for one in x.unbind(0):
            gates = (functional.linear(one, t[f"l{l}.i2h.weight"], t[f"l{l}.i2h.bias"])
                     + functional.linear(h, t[f"l{l}.h2h.weight"], t[f"l{l}.h2h.bias"]))
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            shown.append(h)
        return torch.stack(shown)

    def loss():
        x = functional.embedding(tokens, t["embedding.weight"]).transpose(0, 1)
        x = layers(x)[0] if fused else cell(1, cell(0, x))
        scores = functional.linear(x.reshape(-1, hidden), t["output.weight"], t["output.bias"])
        return functional.cross_entropy(scores, labels)

    return loss


def main():
    torch.set_num_threads(2)
    torch.ones(1).requires_grad_().sum().backward()  # what PyTorch loads at first use
    before = memory("VmRSS")
    named = tensors("tensors")
    loss = resnet(named) if MODEL == "resnet" else lstm(named, MODEL == "lstm")
    named = {name: one for name, one in named.items() if one.requires_grad}
    parameters = list(named.values())
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        made = loss()
        made.backward()
        optimizer.step()
        return made.item()

    def peak():
        """Bytes of tensors at the most, in a step of its own: those there are, and what is allocated and freed."""
        from torch.profiler import ProfilerActivity, profile
        standing = sum(one.numel() * 4 * (3 if one.grad is not None else 1) for one in parameters)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            step()
        now = most = 0
        events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
        for one in sorted(events, key=lambda e: e.start_ns()):
            now += one.nbytes()
            most = max(most, now)
        return standing + most

    def gradients():
        """How far the first gradients are from those in double, the engine's and PyTorch's: medians over the parameters."""
        def of(kind):
            made = {name: one.detach().to(kind) if one.is_floating_point() else one for name, one in tensors("tensors").items()}
            for name in named:
                made[name].requires_grad_()
            (resnet(made) if MODEL == "resnet" else lstm(made, False))().backward()
            return {name: made[name].grad for name in named}

        double, ours = of(torch.float64), of(torch.float32)
        theirs = tensors("gradients")
        far = [[float((one[name] - double[name]).norm() / double[name].norm().clamp_min(1e-30)) for name in named]
               for one in (theirs, ours)]
        return {"engine": statistics.median(far[0]), "torch": statistics.median(far[1])}

    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        if line.strip() == "gradients":
            print(json.dumps(gradients()), flush=True)
            continue
        if line.strip() == "peak":
            measured = memory("VmHWM") - before
            print(json.dumps({"tensor_bytes": peak(), "process_bytes": measured}), flush=True)
            continue
        losses, ms = [], []
        for _ in range(int(line)):
            begin = time.perf_counter()
            losses.append(step())
            ms.append(1e3 * (time.perf_counter() - begin))
        print(json.dumps({"losses": losses, "ms": ms}), flush=True)


if __name__ == "__main__":
    main()
