# SPDX-License-Identifier: BSL-1.0
"""Training scripts whose loop stands in a library: transformers' Trainer, accelerate, Lightning."""
from __future__ import annotations

import logging
import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from shared import UNWATCHED, Watch, batches, compiled, saved, trained
from torch import Tensor, nn

WORDS = 500
SMALL = {"vocab_size": WORDS, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 256}


class Sentences(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 48

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        words = torch.randint(1, WORDS, (64,), generator=torch.Generator().manual_seed(number))
        return {"input_ids": words, "labels": words.clone()}


def by_trainer(model: Any, backend: Any, watch: Watch, **told: Any) -> list[float]:
    """Trains for epochs of 12 steps, with a checkpoint after each; losses and norms of gradients."""
    import transformers

    class Watching(transformers.TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            watch.begin()

        def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
            watch.end()

    if backend is not None:
        model.compile(backend=backend)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=4, num_train_epochs=watch.epochs(1), logging_steps=1, report_to=[],
            use_cpu=True, save_strategy="epoch", save_total_limit=1, disable_tqdm=True, dataloader_pin_memory=False,
            **told)
        trainer = transformers.Trainer(model, arguments, train_dataset=Sentences(), callbacks=[Watching()])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        trainer.save_model(folder)
    logs = [log for log in trainer.state.log_history if "loss" in log]
    return [float(log[name]) for log in logs for name in ("loss", "grad_norm")]


def trainer_lora(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """Only the adapters of attention are trained."""
    import peft
    import transformers

    transformers.set_seed(0)
    told = transformers.LlamaConfig(num_key_value_heads=2, use_cache=False, **SMALL)
    adapters = peft.LoraConfig(r=8, lora_alpha=16, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(transformers.LlamaForCausalLM(told), adapters)
    return trained(by_trainer(model, backend, watch, learning_rate=1e-3), model)


def trainer_checkpoints(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """The user checkpoints each layer already, by the argument of the Trainer."""
    import transformers

    transformers.set_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, use_cache=False, **SMALL))
    told = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}
    return trained(by_trainer(model, backend, watch, **told), model)


def accelerated(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """A BERT that classifies sentences, with the loop that accelerate's examples have."""
    import accelerate
    import transformers

    accelerate.utils.set_seed(0)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=1)
    net = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=2, **SMALL))
    words, labels = torch.randint(1, WORDS, (40, 48)), torch.randint(2, (40,))
    loader = batches(words, torch.ones_like(words), labels, size=8)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-4)
    scheduler = transformers.get_linear_schedule_with_warmup(optimizer, 2, 15)
    model, optimizer, loader, scheduler = accelerator.prepare(compiled(net, backend), optimizer, loader, scheduler)
    losses = []
    for _ in range(watch.epochs(3)):
        model.train()
        for ids, mask, wanted in loader:
            with accelerator.accumulate(model):
                with watch.step():
                    loss = model(input_ids=ids, attention_mask=mask, labels=wanted).loss
                    accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            for ids, mask, wanted in loader:
                losses.append(model(input_ids=ids, attention_mask=mask, labels=wanted).loss)
        saved(accelerator.get_state_dict(model))
    return trained(losses, net)


def lightning(backend: Any, watch: Watch = UNWATCHED) -> list[Tensor]:
    """The network is compiled, within a module of Lightning that logs."""
    import pytorch_lightning

    logging.getLogger(pytorch_lightning.__name__).setLevel(logging.ERROR)
    losses: list[Tensor] = []

    class Task(pytorch_lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            widths = [(96, 256)] + [(256, 256)] * 4
            layers = [nn.Sequential(nn.Linear(a, b), nn.GELU(), nn.LayerNorm(b), nn.Dropout(0.1)) for a, b in widths]
            self.net = compiled(nn.Sequential(*layers, nn.Linear(256, 10)), backend)

        def training_step(self, batch: list[Tensor], _: int) -> Tensor:
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            self.log("train_loss", loss)
            losses.append(loss.detach())
            return loss

        def validation_step(self, batch: list[Tensor], _: int) -> None:
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            self.log("val_loss", loss, prog_bar=True)
            losses.append(loss)

        def configure_optimizers(self) -> dict[str, Any]:
            optimizer = torch.optim.AdamW(self.parameters(), 1e-3)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}

    class Watching(pytorch_lightning.Callback):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            trainer.optimizers[0].zero_grad()  # Lightning does it later, between the forward and the backward pass
            watch.begin()

        def on_before_optimizer_step(self, *args: Any) -> None:
            watch.end()

    pytorch_lightning.seed_everything(0)
    task = Task()
    data = torch.randn(1280, 96), torch.randint(10, (1280,))
    with tempfile.TemporaryDirectory() as folder:
        trainer = pytorch_lightning.Trainer(
            max_epochs=watch.epochs(3), accelerator="cpu", logger=False, default_root_dir=folder, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[Watching()])
        trainer.fit(task, batches(*data, size=256), batches(*(part[:256] for part in data), size=256))
    return trained(losses, task)


SCRIPTS = {"Trainer with LoRA": trainer_lora, "Trainer, gradient checkpointing": trainer_checkpoints,
           "accelerate": accelerated, "Lightning": lightning}
