# SPDX-License-Identifier: BSL-1.0
"""Training scripts for images: classification, metric learning, mixed precision, detection."""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from shared import UNWATCHED, Watch, batches, compiled, saved, trained
from torch import Tensor, nn


class Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class SmallResNet(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        widths = (16, 16, 32, 64)
        pairs = zip(widths, widths[1:])
        self.layers = nn.Sequential(*(Residual(a, b, 1 if a == b else 2) for a, b in pairs))
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1)
        return self.head(self.dropout(torch.flatten(x, 1)))


def image_classifier(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """An epoch has four batches and a smaller last one, and ends with an evaluation and a checkpoint."""
    torch.manual_seed(0)
    train_loader = batches(torch.randn(72, 3, 32, 32), torch.randint(10, (72,)), size=16, shuffle=True)
    test_loader = batches(torch.randn(24, 3, 32, 32), torch.randint(10, (24,)), size=16)
    net = SmallResNet(10)
    model = compiled(net, backend)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    losses, best = [], -1.0
    for epoch in range(watch.epochs(3)):
        model.train()
        for images, labels in train_loader:
            optimizer.zero_grad()
            with watch.step():
                loss = criterion(model(images), labels)
                loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        model.eval()
        correct = 0
        with torch.no_grad():
            for images, labels in test_loader:
                output = model(images)
                losses.append(F.cross_entropy(output, labels))
                correct += (output.argmax(1) == labels).sum().item()
        scheduler.step()
        if correct / 24 > best:
            best = correct / 24
            saved({"epoch": epoch, "model": net.state_dict(), "optimizer": optimizer.state_dict(), "accuracy": best})
    return trained(losses, net)


class Twins(nn.Module):
    """One network for two images; says how alike they are."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((1, 16), (16, 32), (32, 32)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(2 * 32 * 16, 128), nn.ReLU(inplace=True), nn.Linear(128, 1))
        self.sigmoid = nn.Sigmoid()

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        both = torch.cat((self.features(one), self.features(other)), 1)
        return self.sigmoid(self.fc(both))


def siamese(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    torch.manual_seed(0)
    images, labels = torch.rand(80, 1, 32, 32), torch.randint(4, (80,))
    others = torch.randperm(80)
    alike = (labels == labels[others]).float()
    loader = batches(images, images[others], alike, size=16)
    net = Twins()
    model = compiled(net, backend)
    criterion = nn.BCELoss()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    for _ in range(watch.epochs(3)):
        model.train()
        for one, other, targets in loader:
            optimizer.zero_grad()
            with watch.step():
                loss = criterion(model(one, other).squeeze(), targets)
                loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        scheduler.step()
        model.eval()
        with torch.no_grad():
            losses += [criterion(model(a, b).squeeze(), targets) for a, b, targets in loader]
        saved(model.state_dict())
    return trained(losses, net)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attention = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(attention.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, size: int, patch: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.head(self.norm(self.blocks(self.dropout(x)))[:, 0])


def vit_amp(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """Mixed precision: the model and its loss run within autocast to bfloat16."""
    torch.manual_seed(0)
    loader = batches(torch.randn(40, 3, 64, 64), torch.randint(10, (40,)), size=8, shuffle=True)
    net = VisionTransformer(64, 8, 128, 4, 4, 10)
    model = compiled(net, backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=15)
    losses = []
    for _ in range(watch.epochs(3)):
        model.train()
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            with watch.step():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            losses += [F.cross_entropy(model(images), labels) for images, labels in loader]
        saved({"model": net.state_dict(), "scheduler": scheduler.state_dict()})
    return trained(losses, net)


class Pyramid(nn.Module):
    """A backbone as torchvision's detectors want it: feature maps of three sizes by name, all of `out_channels`."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.ops import FeaturePyramidNetwork

        def stage(before: int, after: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
                                 Residual(after, after, 1))

        self.out_channels = 64
        self.stem = stage(3, 16)
        self.stages = nn.ModuleList(stage(a, b) for a, b in ((16, 32), (32, 64), (64, 128)))
        self.fpn = FeaturePyramidNetwork([32, 64, 128], self.out_channels)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x, maps = self.stem(x), {}
        for number, stage in enumerate(self.stages):
            x = stage(x)
            maps[str(number)] = x
        return self.fpn(maps)


def pictures(count: int) -> list[tuple[Tensor, dict[str, Tensor]]]:
    """Images with one to four boxes each."""
    found = []
    for number in range(count):
        corners = torch.rand(number % 4 + 1, 2) * 60
        boxes = torch.cat((corners, corners + 10 + torch.rand(len(corners), 2) * 50), 1)
        labels = torch.randint(1, 5, (len(corners),))
        found.append((torch.rand(3, 128, 128), {"boxes": boxes, "labels": labels}))
    return found


def retinanet(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    torch.manual_seed(0)
    data = pictures(12)
    loader = torch.utils.data.DataLoader(data, batch_size=2, collate_fn=lambda batch: tuple(zip(*batch)))  # type: ignore
    anchors = AnchorGenerator(((16, 24), (32, 48), (64, 96)), ((0.5, 1.0, 2.0),) * 3)
    net = RetinaNet(Pyramid(), 5, anchor_generator=anchors, min_size=128, max_size=128)
    model = compiled(net, backend)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.005, momentum=0.9)
    losses = []
    for _ in range(watch.epochs(3)):
        model.train()
        for images, targets in loader:
            optimizer.zero_grad()
            with watch.step():
                told = model(list(images), list(targets))
                loss = sum(told.values())
                loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            found = model([image for image, _ in data[:2]])
        losses += [one["scores"].sum() for one in found]
        saved(net.state_dict())
    return trained(losses, net)


SCRIPTS = {"image classifier": image_classifier, "siamese": siamese, "ViT, bfloat16 autocast": vit_amp,
           "RetinaNet": retinanet}
