#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Training steps of PyTorch on the device, eager, in float32 without TF32: torch_steps.py resnet50|lstm BATCH. One line of JSON."""
import json
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed")
from torch import nn
from torch.nn import functional

MODEL, BATCH = sys.argv[1], int(sys.argv[2])
DEVICE = sys.argv[3] if len(sys.argv) > 3 else "cuda"
IMAGE, LENGTH, HIDDEN, WORDS = 224, 35, 512, 2000


class Unit(nn.Module):
    """A bottleneck with pre-activation, as examples/engine/models/resnet_graph.hpp has it."""

    def __init__(self, before, width, stride):
        super().__init__()
        self.norm = nn.ModuleList([nn.BatchNorm2d(before), nn.BatchNorm2d(width), nn.BatchNorm2d(width)])
        self.folds = nn.ModuleList([nn.Conv2d(before, width, 1, bias=False), nn.Conv2d(width, width, 3, stride, 1, bias=False),
                                    nn.Conv2d(width, 4 * width, 1, bias=False)])
        self.shortcut = nn.Conv2d(before, 4 * width, 1, stride, bias=False) if stride > 1 or before != 4 * width else None

    def forward(self, x):
        first = functional.relu(self.norm[0](x))
        y = self.folds[0](first)
        for norm, fold in zip(list(self.norm)[1:], list(self.folds)[1:]):
            y = fold(functional.relu(norm(y)))
        return y + (self.shortcut(first) if self.shortcut else x)


def resnet50():
    layers = [nn.BatchNorm2d(3), nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, (count, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for k in range(count):
            layers.append(Unit(before, width, 2 if stage and not k else 1))
            before = 4 * width
    layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000)]
    model = nn.Sequential(*layers).to(DEVICE)
    images = torch.randn(BATCH, 3, IMAGE, IMAGE, device=DEVICE)
    labels = torch.randint(1000, (BATCH,), device=DEVICE)
    return model, lambda: functional.cross_entropy(model(images), labels)


def lstm():
    model = nn.ModuleDict({"table": nn.Embedding(WORDS, HIDDEN), "layers": nn.LSTM(HIDDEN, HIDDEN, 2), "scores": nn.Linear(HIDDEN, WORDS)}).to(DEVICE)
    words = torch.randint(WORDS, (LENGTH, BATCH), device=DEVICE)
    labels = torch.randint(WORDS, (LENGTH * BATCH,), device=DEVICE)
    return model, lambda: functional.cross_entropy(model["scores"](model["layers"](model["table"](words))[0].flatten(0, 1)), labels)


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch sees no device")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    model, loss = {"resnet50": resnet50, "lstm": lstm}[MODEL]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    ms = []
    for k in range(8):
        begin = time.perf_counter()
        optimizer.zero_grad()
        made = loss()
        made.backward()
        optimizer.step()
        made.item()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        if k >= 3:
            ms.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"ms": statistics.median(ms), "version": torch.__version__,
                      "bytes": torch.cuda.max_memory_allocated() if DEVICE == "cuda" else None}))


if __name__ == "__main__":
    main()
