# SPDX-License-Identifier: BSL-1.0
"""Training scripts for text: language models by LSTM, Transformer, GPT and Mamba, and translation."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from shared import UNWATCHED, Watch, batches, compiled, saved, trained
from torch import Tensor, nn

WORDS = 500


def batchify(data: Tensor, size: int) -> Tensor:
    """A text as `size` columns."""
    length = len(data) // size
    return data[: length * size].view(size, length).t().contiguous()


def portions(source: Tensor, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Portions of the columns, and the words that follow; the last portion is shorter."""
    for at in range(0, len(source) - 1, length):
        end = min(at + length, len(source) - 1)
        yield source[at:end], source[at + 1 : end + 1].reshape(-1)


class RnnModel(nn.Module):
    def __init__(self, width: int, layers: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(WORDS, width)
        self.rnn = nn.LSTM(width, width, layers, dropout=dropout)
        self.decoder = nn.Linear(width, WORDS)
        self.decoder.weight = self.encoder.weight

    def forward(self, words: Tensor, hidden: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, hidden = self.rnn(self.drop(self.encoder(words)), hidden)
        return F.log_softmax(self.decoder(self.drop(output)).view(-1, WORDS), dim=1), hidden


def lstm_language_model(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """Hidden states go from portion to portion, cut off from their history; the best model is saved whole and loaded
    again at the end.
    """
    torch.manual_seed(0)
    train_data, val_data = batchify(torch.randint(WORDS, (1700,)), 10), batchify(torch.randint(WORDS, (400,)), 10)
    net = RnnModel(128, 2)
    model = compiled(net, backend)
    criterion = nn.NLLLoss()
    lr, best, kept, losses = 5.0, math.inf, None, []

    def fresh() -> tuple[Tensor, Tensor]:
        return torch.zeros(2, 10, 128), torch.zeros(2, 10, 128)

    for _ in range(watch.epochs(3)):
        model.train()
        hidden = fresh()
        for data, targets in portions(train_data, 35):
            model.zero_grad()
            hidden = tuple(part.detach() for part in hidden)
            with watch.step():
                output, hidden = model(data, hidden)
                loss = criterion(output, targets)
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-lr)
            losses.append(loss.detach())
        model.eval()
        hidden, total = fresh(), 0.0
        with torch.no_grad():
            for data, targets in portions(val_data, 35):
                output, hidden = model(data, hidden)
                total += len(data) * criterion(output, targets).item()
        losses.append(total)
        if total < best:
            best, kept = total, saved(model)
        else:
            lr /= 4.0
    return trained(losses, net, getattr(kept, "_orig_mod", kept))


class PositionalEncoding(nn.Module):
    def __init__(self, width: int, longest: int = 128) -> None:
        super().__init__()
        places, step = torch.arange(longest).unsqueeze(1), torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        table = torch.zeros(longest, 1, width)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(places * step), torch.cos(places * step)
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.table[: x.shape[0]])


class TransformerModel(nn.Module):
    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.width, self.mask = width, None
        self.embedding, self.places = nn.Embedding(WORDS, width), PositionalEncoding(width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.2)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.decoder = nn.Linear(width, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        if self.mask is None or self.mask.shape[0] != len(words):
            self.mask = nn.Transformer.generate_square_subsequent_mask(len(words))
        x = self.places(self.embedding(words) * math.sqrt(self.width))
        return F.log_softmax(self.decoder(self.encoder(x, mask=self.mask)), dim=-1)


def transformer_language_model(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    torch.manual_seed(0)
    train_data, val_data = batchify(torch.randint(WORDS, (1700,)), 10), batchify(torch.randint(WORDS, (400,)), 10)
    net = TransformerModel(128, 4, 3)
    model = compiled(net, backend)
    criterion = nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.95)
    losses = []
    for _ in range(watch.epochs(3)):
        model.train()
        for data, targets in portions(train_data, 35):
            optimizer.zero_grad()
            with watch.step():
                loss = criterion(model(data).view(-1, WORDS), targets)
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            losses += [criterion(model(data).view(-1, WORDS), targets) for data, targets in portions(val_data, 35)]
        scheduler.step()
        saved(model)
    return trained(losses, net)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q(x), self.k(y), self.v(y)))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        weights = self.dropout(scores.masked_fill(~mask, -1e9).softmax(-1))
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Of an encoder, or with `crossed` of a decoder."""

    def __init__(self, width: int, heads: int, crossed: bool) -> None:
        super().__init__()
        self.own, self.crossed = Attention(width, heads), Attention(width, heads) if crossed else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if crossed else 2))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, seen: Tensor | None = None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.dropout(self.own(y, y, mask))
        if self.crossed is not None:
            x = x + self.dropout(self.crossed(self.norms[2](x), memory, seen))
        return x + self.dropout(self.mlp(self.norms[1](x)))


class Translator(nn.Module):
    def __init__(self, width: int = 128, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.encoder = nn.ModuleList(Layer(width, heads, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, heads, True) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, WORDS)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        seen = (source != 0)[:, None, None]
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()
        mask = (target != 0)[:, None, None] & future
        memory, x = self.source(source), self.target(target)
        for layer in self.encoder:
            memory = layer(memory, seen)
        for layer in self.decoder:
            x = layer(x, mask, memory, seen)
        return self.out(self.norm(x))


def sentences(count: int) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randint(1, WORDS, (20 + k % 7,)), torch.randint(1, WORDS, (18 + k % 9,))) for k in range(count)]


def padded(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    source, target = (nn.utils.rnn.pad_sequence(side, batch_first=True) for side in zip(*pairs))
    return source, target


def translation(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """Sentences of many lengths, padded to the longest of a batch: shapes change from step to step."""
    torch.manual_seed(0)
    pairs = sentences(40)
    train_loader = torch.utils.data.DataLoader(pairs[:32], 4, collate_fn=padded)  # type: ignore[arg-type]
    val_loader = torch.utils.data.DataLoader(pairs[32:], 4, collate_fn=padded)  # type: ignore[arg-type]
    net = Translator()
    model = compiled(net, backend)
    criterion = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 128**-0.5 * min((k + 1) ** -0.5, (k + 1) * 400**-1.5))
    losses = []
    for _ in range(watch.epochs(3)):
        model.train()
        for source, target in train_loader:
            optimizer.zero_grad()
            with watch.step():
                loss = criterion(model(source, target[:, :-1]).reshape(-1, WORDS), target[:, 1:].reshape(-1))
                loss.backward()
            optimizer.step()
            warm.step()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            for source, target in val_loader:
                losses.append(criterion(model(source, target[:, :-1]).reshape(-1, WORDS), target[:, 1:].reshape(-1)))
        saved(net.state_dict())
    return trained(losses, net)


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.dropout(self.c_proj(y))
        return x + self.dropout(self.c_out(F.gelu(self.c_fc(self.ln_2(x)))))


class Gpt(nn.Module):
    def __init__(self, width: int = 128, heads: int = 4, layers: int = 4, length: int = 64) -> None:
        super().__init__()
        self.wte, self.wpe, self.drop = nn.Embedding(WORDS, width), nn.Embedding(length, width), nn.Dropout(0.1)
        self.h = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, words: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        x = self.drop(self.wte(words) + self.wpe(torch.arange(words.shape[1])))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, WORDS), targets.view(-1), ignore_index=-1)


def nano_gpt(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """Each step of the optimizer adds the gradients of two batches up."""
    torch.manual_seed(0)
    text, order = torch.randint(WORDS, (4000,)), torch.Generator().manual_seed(1)
    net = Gpt()
    model = compiled(net, backend)
    decayed = [p for p in net.parameters() if p.dim() >= 2]
    others = [p for p in net.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95))

    def batch() -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(text) - 65, (8,), generator=order)
        return torch.stack([text[k : k + 64] for k in starts]), torch.stack([text[k + 1 : k + 65] for k in starts])

    def step(words: Tensor, targets: Tensor) -> Tensor:
        _logits, loss = model(words, targets)
        loss = loss / 2
        loss.backward()
        return loss.detach()

    losses, steps = [], 4 * watch.epochs(2)
    for number in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 6e-5 + 2.7e-4 * (1 + math.cos(math.pi * number / steps))
        for _ in range(2):
            words, targets = batch()
            with watch.step():
                losses.append(step(words, targets))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if number % 4 == 3:
            model.eval()
            with torch.no_grad():
                losses.append(model(*batch())[1])
            model.train()
            saved({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "iteration": number})
    return trained(losses, net)


def mamba(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    from models import transformers_library

    library = transformers_library()
    torch.manual_seed(0)
    told = library.MambaConfig(vocab_size=WORDS, hidden_size=96, num_hidden_layers=2, state_size=8, use_cache=False)
    loader = batches(torch.randint(WORDS, (12, 24)), size=2, shuffle=True)
    net = library.MambaForCausalLM(told)
    model = compiled(net, backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(watch.epochs(3)):
        model.train()
        for (words,) in loader:
            optimizer.zero_grad()
            with watch.step():
                loss = model(input_ids=words, labels=words).loss
                loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        saved(net.state_dict())
    return trained(losses, net)


SCRIPTS = {"LSTM language model": lstm_language_model, "Transformer language model": transformer_language_model,
           "translation": translation, "nanoGPT, accumulation": nano_gpt, "Mamba": mamba}
