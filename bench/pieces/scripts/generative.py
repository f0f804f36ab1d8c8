# SPDX-License-Identifier: BSL-1.0
"""Training scripts that make images: VAE, DCGAN, style transfer, diffusion with EMA, DiT."""
from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from shared import UNWATCHED, Watch, batches, compiled, saved, trained
from torch import Tensor, nn


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 400)
        self.mean, self.spread = nn.Linear(400, 20), nn.Linear(400, 20)
        self.fc3, self.fc4 = nn.Linear(20, 400), nn.Linear(400, 784)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = F.relu(self.fc1(x.view(-1, 784)))
        mean, log_variance = self.mean(hidden), self.spread(hidden)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mean, log_variance


def vae_loss(x: Tensor, rebuilt: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    likelihood = F.binary_cross_entropy(rebuilt, x.view(-1, 784), reduction="sum")
    return likelihood - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())


def vae(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    torch.manual_seed(0)
    loader = batches(torch.rand(600, 1, 28, 28), size=128, shuffle=True)
    net = Vae()
    model = compiled(net, backend)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(images: Tensor) -> Tensor:
        rebuilt, mean, log_variance = model(images)
        loss = vae_loss(images, rebuilt, mean, log_variance)
        loss.backward()
        return loss.detach()

    losses = []
    for _ in range(watch.epochs(4)):
        model.train()
        for (images,) in loader:
            optimizer.zero_grad()
            with watch.step():
                losses.append(step(images))
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for (images,) in loader:
                losses.append(vae_loss(images, *model(images)))
        saved(model)
    return trained(losses, net)


def generator(noise: int, width: int) -> nn.Module:
    layers: list[nn.Module] = [nn.ConvTranspose2d(noise, width * 4, 4, 1, 0, bias=False)]
    for before, after in ((width * 4, width * 2), (width * 2, width)):
        layers += [nn.BatchNorm2d(before), nn.ReLU(True), nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False)]
    return nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU(True), nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False),
                         nn.Tanh())


def discriminator(width: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for before, after in ((width, width * 2), (width * 2, width * 4)):
        layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(width * 4, 1, 4, 1, 0, bias=False), nn.Sigmoid())


def weights_init(module: nn.Module) -> None:
    name = type(module).__name__
    if "Conv" in name:
        nn.init.normal_(module.weight, 0.0, 0.02)  # type: ignore[arg-type]
    elif "BatchNorm" in name:
        nn.init.normal_(module.weight, 1.0, 0.02)  # type: ignore[arg-type]
        nn.init.zeros_(module.bias)  # type: ignore[arg-type]


def dcgan(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """Two networks, three passes each step: real images, made ones, and the generator's own."""
    torch.manual_seed(0)
    loader = batches(torch.rand(64, 3, 32, 32) * 2 - 1, size=16, shuffle=True)
    nets = generator(64, 16).apply(weights_init), discriminator(16).apply(weights_init)
    g, d = (compiled(net, backend) for net in nets)
    criterion = nn.BCELoss()
    of_d = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_g = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    fixed = torch.randn(16, 64, 1, 1)
    losses = []
    for _ in range(watch.epochs(4)):
        for (real,) in loader:
            d.zero_grad()
            g.zero_grad()
            with watch.step():
                label = torch.full((len(real),), 1.0)
                loss_real = criterion(d(real).view(-1), label)
                loss_real.backward()
                fake = g(torch.randn(len(real), 64, 1, 1))
                label.fill_(0.0)
                loss_fake = criterion(d(fake.detach()).view(-1), label)
                loss_fake.backward()
                of_d.step()
                label.fill_(1.0)
                loss_g = criterion(d(fake).view(-1), label)
                loss_g.backward()
                of_g.step()
            losses += [loss_real.detach(), loss_fake.detach(), loss_g.detach()]
        with torch.no_grad():
            losses.append(g(fixed).mean())
        saved(g.state_dict())
        saved(d.state_dict())
    return trained(losses, *nets)


class ConvLayer(nn.Module):
    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, upsample: int = 1) -> None:
        super().__init__()
        self.upsample = upsample
        self.pad = nn.ReflectionPad2d(kernel // 2)
        self.conv = nn.Conv2d(before, after, kernel, stride)

    def forward(self, x: Tensor) -> Tensor:
        if self.upsample > 1:
            x = F.interpolate(x, mode="nearest", scale_factor=self.upsample)
        return self.conv(self.pad(x))


class StyleBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = ConvLayer(width, width, 3), ConvLayer(width, width, 3)
        self.in1, self.in2 = nn.InstanceNorm2d(width, affine=True), nn.InstanceNorm2d(width, affine=True)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.in2(self.conv2(self.relu(self.in1(self.conv1(x)))))


def style_network(width: int) -> nn.Module:
    def made(*told: int) -> list[nn.Module]:
        return [ConvLayer(*told), nn.InstanceNorm2d(told[1], affine=True), nn.ReLU()]

    down = made(3, width, 9) + made(width, 2 * width, 3, 2) + made(2 * width, 4 * width, 3, 2)
    same = [StyleBlock(4 * width) for _ in range(3)]
    up = made(4 * width, 2 * width, 3, 1, 2) + made(2 * width, width, 3, 1, 2)
    return nn.Sequential(*down, *same, *up, ConvLayer(width, 3, 9))


class Features(nn.Module):
    """What a frozen network sees at three depths."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.ReLU())
                                    for a, b in ((3, 16), (16, 32), (32, 64)))
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> list[Tensor]:
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found


def gram(y: Tensor) -> Tensor:
    batch, channels, height, width = y.shape
    features = y.view(batch, channels, height * width)
    return features.bmm(features.transpose(1, 2)) / (channels * height * width)


def normalize_batch(batch: Tensor) -> Tensor:
    """Writes into the batch, as the script that this one follows does."""
    mean = batch.new_tensor([0.485, 0.456, 0.406]).view(-1, 1, 1)
    std = batch.new_tensor([0.229, 0.224, 0.225]).view(-1, 1, 1)
    return (batch.div_(255.0) - mean) / std


def style_transfer(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """The images are normalised in place between the network's forward pass and the backward pass."""
    torch.manual_seed(0)
    loader = batches(torch.rand(16, 3, 64, 64) * 255, size=4)
    net = style_network(8)
    transformer, vgg = compiled(net, backend), compiled(Features(), backend)
    optimizer = torch.optim.Adam(transformer.parameters(), lr=1e-3)
    styles = [gram(y) for y in vgg(normalize_batch(torch.rand(1, 3, 64, 64) * 255))]
    losses = []
    for _ in range(watch.epochs(4)):
        transformer.train()
        for (x,) in loader:
            optimizer.zero_grad()
            with watch.step():
                y = transformer(x)
                y, x = normalize_batch(y), normalize_batch(x)
                of_y, of_x = vgg(y), vgg(x)
                content = 1e5 * F.mse_loss(of_y[1], of_x[1])
                style = sum(F.mse_loss(gram(found), wanted.expand(len(x), -1, -1))
                            for found, wanted in zip(of_y, styles))
                loss = content + 1e10 * style
                loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        transformer.eval()
        saved(transformer.state_dict())
    return trained(losses, net)


def timestep_embedding(t: Tensor, width: int) -> Tensor:
    frequencies = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2))
    angles = t[:, None].float() * frequencies[None]
    return torch.cat((angles.cos(), angles.sin()), -1)


class TimedBlock(nn.Module):
    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, before), nn.GroupNorm(4, after)
        self.conv1, self.conv2 = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.time, self.dropout = nn.Linear(time, after), nn.Dropout(0.1)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        hidden = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(self.dropout(F.silu(self.norm2(hidden))))


class DenoisingUnet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        time = 4 * width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down1, self.down2 = TimedBlock(width, width, time), TimedBlock(width, 2 * width, time)
        self.middle = TimedBlock(2 * width, 2 * width, time)
        self.up2, self.up1 = TimedBlock(4 * width, width, time), TimedBlock(2 * width, width, time)
        self.norm = nn.GroupNorm(4, width)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        t = self.time(timestep_embedding(t, self.width))
        one = self.down1(self.first(x), t)
        two = self.down2(F.avg_pool2d(one, 2), t)
        deep = F.interpolate(self.middle(F.avg_pool2d(two, 2), t), scale_factor=2)
        deep = F.interpolate(self.up2(torch.cat((deep, two), 1), t), scale_factor=2)
        return self.last(F.silu(self.norm(self.up1(torch.cat((deep, one), 1), t))))


def diffusion_ema(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """Noise is predicted; a slowly moving average of the weights is kept and used for sampling."""
    torch.manual_seed(0)
    loader = batches(torch.rand(64, 3, 32, 32) * 2 - 1, size=16, shuffle=True)
    net = DenoisingUnet()
    average = copy.deepcopy(net).eval().requires_grad_(False)
    model = compiled(net, backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
    losses = []
    for _ in range(watch.epochs(4)):
        model.train()
        for (images,) in loader:
            t = torch.randint(1000, (len(images),))
            noise = torch.randn_like(images)
            kept = alphas[t].view(-1, 1, 1, 1)
            noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise
            optimizer.zero_grad()
            with watch.step():
                loss = F.mse_loss(model(noisy, t), noise)
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), net.parameters()):
                    slow.lerp_(fast, 0.01)
            losses.append(loss.detach())
        with torch.no_grad():
            losses.append(average(torch.randn(4, 3, 32, 32), torch.full((4,), 999)).mean())
        saved({"model": net.state_dict(), "ema": average.state_dict(), "optimizer": optimizer.state_dict()})
    return trained(losses, net, average)


class DitBlock(nn.Module):
    """Its norms are scaled, shifted and gated by the condition; all three begin at zero."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        nn.init.zeros_(self.modulation[1].weight)
        nn.init.zeros_(self.modulation[1].bias)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c)[:, None].chunk(6, -1)
        y = self.norm1(x) * (1 + scale1) + shift1
        x = x + gate1 * self.attention(y, y, y, need_weights=False)[0]
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class Dit(nn.Module):
    def __init__(self, size: int = 16, patch: int = 2, width: int = 128, depth: int = 4, classes: int = 10) -> None:
        super().__init__()
        self.patch, self.width, self.classes = patch, width, classes
        self.patches = nn.Conv2d(4, width, patch, patch)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2, width) * 0.02)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.labels = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList(DitBlock(width, 4) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(width, elementwise_affine=False), nn.Linear(width, patch * patch * 4)

    def forward(self, x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        if self.training:  # sampling without a label is learnt too
            labels = torch.where(torch.rand(labels.shape) < 0.1, self.classes, labels)
        condition = self.time(timestep_embedding(t, self.width)) + self.labels(labels)
        side = x.shape[-1] // self.patch
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x, condition)
        x = self.out(self.norm(x)).view(len(x), side, side, self.patch, self.patch, 4)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(len(x), 4, side * self.patch, side * self.patch)


def dit(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    torch.manual_seed(0)
    loader = batches(torch.randn(32, 4, 16, 16), torch.randint(10, (32,)), size=8, shuffle=True)
    net = Dit()
    average = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    model = compiled(net, backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
    losses = []
    for _ in range(watch.epochs(4)):
        model.train()
        for latents, labels in loader:
            t, noise = torch.rand(len(latents)), torch.randn_like(latents)
            mixed = torch.lerp(latents, noise, t.view(-1, 1, 1, 1))
            optimizer.zero_grad()
            with watch.step():
                loss = F.mse_loss(model(mixed, t * 1000, labels), noise - latents)
                loss.backward()
            optimizer.step()
            average.update_parameters(net)
            losses.append(loss.detach())
        saved({"model": net.state_dict(), "ema": average.state_dict()})
    return trained(losses, net, average)


SCRIPTS = {"VAE": vae, "DCGAN": dcgan, "style transfer": style_transfer, "diffusion with EMA": diffusion_ema, "DiT": dit}
