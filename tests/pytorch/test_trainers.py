"""Training loops that others wrote: transformers' Trainer, adapters of peft, and Lightning, with the same
losses as by PyTorch's default partition.
"""

from __future__ import annotations

import logging
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import torch
from support import Case, default_backend
from torch import nn
from torch._dynamo.exc import InternalTorchDynamoError

import echo_torch  # isort: split

try:
    import peft
    import pytorch_lightning
    import transformers
    from accelerate.utils import DynamoBackend
except ImportError as missing:
    raise unittest.SkipTest(f"not all trainers are there: {missing}") from None

logging.getLogger(pytorch_lightning.__name__).setLevel(logging.ERROR)
SMALL = {
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": 500,
}


class Sentences(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        words = torch.randint(1, 500, (64,), generator=torch.Generator().manual_seed(number))
        return {"input_ids": words, "labels": words.clone()}


def by_trainer(backend: Any, **told: Any) -> list[float]:
    """Losses and norms of gradients of three steps by transformers' Trainer."""
    transformers.set_seed(0)
    model = transformers.BertForMaskedLM(transformers.BertConfig(**SMALL))
    model.compile(backend=backend)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            max_steps=3,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            **told,
        )
        trainer = transformers.Trainer(model, arguments, train_dataset=Sentences())
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    logs = [log for log in trainer.state.log_history if "loss" in log]
    return [log[name] for log in logs for name in ("loss", "grad_norm")]


def by_hand(backend: Any) -> list[float]:
    """Losses of three steps in which only adapters are trained."""
    transformers.set_seed(0)
    told = transformers.LlamaConfig(num_key_value_heads=2, **SMALL)
    adapters = peft.LoraConfig(r=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(transformers.LlamaForCausalLM(told), adapters)
    model.compile(backend=backend)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    losses = []
    for _ in range(3):
        words = torch.randint(0, 500, (4, 64))
        loss = model(input_ids=words, labels=words).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


class Repeats(pytorch_lightning.LightningModule):
    def __init__(self, backend: Any) -> None:
        super().__init__()
        layers = (nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(64)) for _ in range(6))
        # The `compile` method of PyTorch's own modules compiles nothing.
        self.net = nn.Sequential(*layers)
        if backend is not None:
            self.net = torch.compile(self.net, backend=backend)
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        loss = (self.net(batch[0]) - batch[0]).square().mean()
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-3)


def by_lightning(backend: Any, around: bool = False) -> list[float]:
    """Losses of an epoch of four steps. `around`: the module as a whole is compiled, not the network in it."""
    torch.manual_seed(0)
    module = Repeats(None if around else backend)
    data = torch.utils.data.TensorDataset(torch.randn(1024, 64))
    pytorch_lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(
        torch.compile(module, backend=backend) if around else module, torch.utils.data.DataLoader(data, batch_size=256)
    )
    return module.losses


class Trainers(Case):
    def same(self, train: Callable[..., list[float]], **told: Any) -> None:
        """Trains by PyTorch's default partition and by Echo's plan, which needs less."""
        expected = train(default_backend(), **told)
        torch._dynamo.reset()
        before = len(echo_torch.reports())
        self.assertEqual(train("echo_eager", **told), expected)
        self.assertGreater(len(expected), 2)
        report = echo_torch.reports()[before]
        self.assertIsNone(report.reason)
        self.assertLess(report.peak, report.default_peak)

    def test_the_trainer_of_transformers(self) -> None:
        self.same(by_trainer)

    def test_accumulated_gradients(self) -> None:
        self.same(by_trainer, gradient_accumulation_steps=2)

    def test_half_precision(self) -> None:
        self.same(by_trainer, bf16=True)

    def test_adapters(self) -> None:
        self.same(by_hand)

    def test_lightning(self) -> None:
        self.same(by_lightning)

    def test_lightning_around_a_module_that_logs_fails_with_any_backend(self) -> None:
        """The guide says so; when this fails, it can say less."""
        for backend in ("aot_eager", "echo_eager"):
            with self.subTest(backend), self.assertRaises(InternalTorchDynamoError):
                torch._dynamo.reset()
                by_lightning(backend, around=True)

    def test_the_argument_of_the_trainer_takes_only_names_that_it_knows(self) -> None:
        """The guide says so; when this fails, it can say less."""
        self.assertNotIn("ECHO", DynamoBackend.__members__)


if __name__ == "__main__":
    unittest.main()
