# SPDX-License-Identifier: BSL-1.0
"""Training scripts for graphs, games and speech."""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from shared import UNWATCHED, Watch, compiled, saved, trained
from torch import Tensor, nn


class Gin(nn.Module):
    """Each layer adds up what the neighbours of a node hold; each graph is the mean of its nodes."""

    def __init__(self, before: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(before if k == 0 else width, width), nn.BatchNorm1d(width), nn.ReLU(),
                          nn.Linear(width, width), nn.ReLU()) for k in range(layers))
        self.eps = nn.Parameter(torch.zeros(layers))
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor, edges: Tensor, of: Tensor, graphs: int) -> Tensor:
        source, target = edges
        for k, layer in enumerate(self.layers):
            told = torch.zeros_like(x).index_add_(0, target, x[source])
            x = layer((1 + self.eps[k]) * x + told)
        sums = x.new_zeros(graphs, x.shape[1]).scatter_add_(0, of[:, None].expand_as(x), x)
        counts = torch.bincount(of, minlength=graphs).clamp(min=1)
        return self.head(F.dropout(sums / counts[:, None], 0.5, self.training))


def molecules(count: int) -> list[tuple[Tensor, Tensor, int]]:
    """Graphs of 30 to 49 nodes: what the nodes hold, edges and the class."""
    found = []
    for k in range(count):
        nodes = 30 + k * 7 % 20
        found.append((torch.randn(nodes, 32), torch.randint(nodes, (2, 4 * nodes)), k % 2))
    return found


def one_graph(batch: list[tuple[Tensor, Tensor, int]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The graphs of a batch side by side in one."""
    sizes = torch.tensor([len(x) for x, _, _ in batch])
    starts = sizes.cumsum(0) - sizes
    edges = torch.cat([edges + start for (_, edges, _), start in zip(batch, starts)], 1)
    of = torch.arange(len(batch)).repeat_interleave(sizes)
    return torch.cat([x for x, _, _ in batch]), edges, of, torch.tensor([y for _, _, y in batch])


def gnn(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """Every batch has other numbers of nodes and edges."""
    torch.manual_seed(0)
    data = molecules(60)
    train_loader = torch.utils.data.DataLoader(data[:48], 8, collate_fn=one_graph)  # type: ignore[arg-type]
    test_loader = torch.utils.data.DataLoader(data[48:], 8, collate_fn=one_graph)  # type: ignore[arg-type]
    net = Gin(32, 96, 4, 2)
    model = compiled(net, backend)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(watch.epochs(4)):
        model.train()
        for x, edges, of, y in train_loader:
            optimizer.zero_grad()
            with watch.step():
                loss = F.cross_entropy(model(x, edges, of, len(y)), y)
                loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            losses += [F.cross_entropy(model(x, edges, of, len(y)), y) for x, edges, of, y in test_loader]
        saved(model.state_dict())
    return trained(losses, net)


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.affine = nn.Sequential(nn.Linear(8, 256), nn.LayerNorm(256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
        self.action, self.value = nn.Linear(256, 4), nn.Linear(256, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.affine(x)
        return F.softmax(self.action(x), -1), self.value(x)


class Game:
    """Sixteen games at a time: an action moves the state, and being near the origin is rewarded."""

    def __init__(self) -> None:
        self.moves = torch.randn(4, 8) * 0.3
        self.state = torch.zeros(16, 8)

    def reset(self) -> Tensor:
        self.state = torch.randn(16, 8)
        return self.state.clone()

    def step(self, action: Tensor) -> tuple[Tensor, Tensor]:
        self.state += self.moves[action]
        return self.state.clone(), -self.state.square().mean(1)


def actor_critic(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """An episode keeps the graph of each of its moves until its only backward pass."""
    torch.manual_seed(0)
    game, net = Game(), Policy()
    model = compiled(net, backend)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for episode in range(8 * watch.epochs(2)):
        state, told, rewards = game.reset(), [], []
        optimizer.zero_grad()
        with watch.step():
            for _ in range(12):
                probabilities, value = model(state)
                chance = torch.distributions.Categorical(probabilities)
                action = chance.sample()
                told.append((chance.log_prob(action), value[:, 0]))
                state, reward = game.step(action)
                rewards.append(reward)
            total, returns = torch.zeros(16), []
            for reward in reversed(rewards):
                total = reward + 0.99 * total
                returns.insert(0, total)
            wanted = torch.stack(returns)
            wanted = (wanted - wanted.mean()) / (wanted.std() + 1e-6)
            policy = [-log * (r - value.detach()) for (log, value), r in zip(told, wanted)]
            values = [F.smooth_l1_loss(value, r, reduction="none") for (_, value), r in zip(told, wanted)]
            loss = torch.stack(policy).sum(0).mean() + torch.stack(values).sum(0).mean()
            loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if episode % 8 == 7:
            saved(model)
    return trained(losses, net)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1),
                                    nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Convolution(nn.Module):
    def __init__(self, width: int, kernel: int = 15) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(dim=1),
                                    nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
                                    nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.norm(x).transpose(1, 2)).transpose(1, 2)


class ConformerBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.last, self.convolution = FeedForward(width), FeedForward(width), Convolution(width)
        self.norm_attention, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        x = x + 0.5 * self.first(x)
        y = self.norm_attention(x)
        x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        x = x + self.convolution(x)
        return self.norm(x + 0.5 * self.last(x))


class Conformer(nn.Module):
    def __init__(self, bands: int, width: int, layers: int, letters: int) -> None:
        super().__init__()
        self.subsample = nn.Sequential(nn.Conv1d(bands, width, 3, 2, 1), nn.ReLU(), nn.Conv1d(width, width, 3, 2, 1), nn.ReLU())
        self.blocks = nn.ModuleList(ConformerBlock(width, 4) for _ in range(layers))
        self.out = nn.Linear(width, letters)

    def forward(self, sounds: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = self.subsample(sounds).transpose(1, 2)
        lengths = (lengths + 3) // 4
        padding = torch.arange(x.shape[1])[None] >= lengths[:, None]
        for block in self.blocks:
            x = block(x, padding)
        return F.log_softmax(self.out(x), -1), lengths


def conformer_ctc(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    torch.manual_seed(0)
    sounds, lengths = torch.randn(16, 40, 160), torch.randint(100, 161, (16,))
    texts, counts = torch.randint(1, 29, (16, 16)), torch.randint(8, 17, (16,))
    data = torch.utils.data.TensorDataset(sounds, lengths, texts, counts)
    loader = torch.utils.data.DataLoader(data, 4)
    net = Conformer(40, 96, 3, 29)
    model = compiled(net, backend)
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    epochs, losses = watch.epochs(4), []
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-4, steps_per_epoch=len(loader), epochs=epochs)
    for _ in range(epochs):
        model.train()
        for sound, length, text, count in loader:
            optimizer.zero_grad()
            with watch.step():
                output, seen = model(sound, length)
                loss = criterion(output.transpose(0, 1), text, seen, count)
                loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            losses.append(model(sounds[:4], lengths[:4])[0].mean())
        saved(net.state_dict())
    return trained(losses, net)


SCRIPTS = {"GNN": gnn, "actor-critic": actor_critic, "Conformer with CTC": conformer_ctc}
