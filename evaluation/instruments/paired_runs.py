"""One training run in fp32 by PyTorch and in int16 by the golden model, on equal terms.

Both have the same initial weights, order of images, schedule and SGD, from the same settings.
"""

import hashlib
import math
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ...host.training.data import Dataset
from ...host.training.inference import evaluate
from ...host.training.models import build_model
from ...host.training.network import Network
from ...host.training.session import open_session
from ...host.training.settings import TrainSettings
from ...host.training.trainer import Trainer
from ...spec.commands import Opcode, Phase
from ...spec.opcodes import COMPUTE
from ...spec.operands import operands

__all__ = ["digest", "move", "results_per_batch", "run_float", "run_integer", "validation"]

VALIDATION_IMAGES = 5000
"""Images after the training images that choose a learning rate; where there are none, a fifth of the training images
stands aside for it."""
EVALUATION_IMAGES = 500
"""Images that PyTorch evaluates at a time."""


def move(model: nn.Module, part: float, seed: int) -> None:
    """Move each weight up or down, at random, by a part of it."""
    signs = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + part * (2 * torch.randint(2, weight.shape, generator=signs) - 1))


def run_float(settings: TrainSettings, dataset: Dataset, moved: float = 0.0) -> dict:
    """A run in fp32 by PyTorch: accuracy on all test images, mean training loss of the last epoch.

    ``moved``: part of each initial weight by which it is moved first.
    """
    model = build_model(settings.model, dataset.shape, dataset.n_classes, settings.seed)
    move(model, moved, settings.seed)
    sgd = torch.optim.SGD(
        model.parameters(), settings.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    x_NCHW = torch.from_numpy(dataset.train_x_NCHW[: settings.train_images])
    y_N = torch.from_numpy(dataset.train_y_N[: settings.train_images])
    steps = len(x_NCHW) // settings.batch
    for epoch in range(settings.epochs):
        order = np.random.default_rng([settings.seed, epoch]).permutation(len(x_NCHW))
        loss_sum = 0.0
        for step in range(steps):
            images = torch.from_numpy(order[step * settings.batch : (step + 1) * settings.batch])
            sgd.param_groups[0]["lr"] = settings.learning_rate_at(epoch * steps + step, settings.epochs * steps)
            loss = cross_entropy(model(x_NCHW[images]), y_N[images])
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            loss_sum += loss.item()
    model.eval()
    with torch.no_grad():
        logits = [model(part) for part in torch.from_numpy(dataset.test_x_NCHW).split(EVALUATION_IMAGES)]
    accuracy = np.mean(torch.cat(logits).argmax(dim=1).numpy() == dataset.test_y_N)
    return {"test_accuracy": float(accuracy), "train_loss": loss_sum / steps}


def results_per_batch(network: Network) -> int:
    """Numbers that a training batch writes and that may saturate: results of commands, weights and momenta."""
    commands = [line.command for line in network.program if line.command.phase_mask & Phase.WARMUP]
    computed = [operands(c, network.config)["out"] for c in commands if c.opcode in COMPUTE]
    updated = sum(c.count for c in commands if c.opcode == Opcode.UPDATE)
    return sum(math.prod(out.shape) for out in computed) + 2 * updated


def run_integer(settings: TrainSettings, dataset: Dataset) -> dict:
    """The same run in int16 block floating point by the golden model, and how many results saturated."""
    few = replace(dataset, test_x_NCHW=dataset.test_x_NCHW[:1], test_y_N=dataset.test_y_N[:1])
    with open_session(settings, "golden") as session:
        trainer = Trainer(settings, session.network, session.device, few)  # tests on all images only at the end
        progress = trainer.run()
        _, accuracy = evaluate(session.network, session.device, dataset.test_x_NCHW, dataset.test_y_N)
        batches = settings.epochs * trainer.steps_per_epoch
        return {
            "test_accuracy": accuracy, "train_loss": progress.log[-1]["train_loss"],
            "saturations": progress.counters["saturations"], "results": batches * results_per_batch(session.network),
        }  # fmt: skip


def validation(dataset: Dataset, train_images: int | None) -> Dataset:
    """``dataset`` without its test images: images that training doesn't use stand in for them."""
    total = len(dataset.train_y_N)
    used = train_images if train_images is not None and train_images < total else total * 4 // 5
    aside = slice(used, used + VALIDATION_IMAGES)
    return replace(
        dataset, train_x_NCHW=dataset.train_x_NCHW[:used], train_y_N=dataset.train_y_N[:used],
        test_x_NCHW=dataset.train_x_NCHW[aside], test_y_N=dataset.train_y_N[aside],
    )  # fmt: skip


def digest(dataset: Dataset) -> str:
    """Name of a data set with the beginning of its checksum."""
    checksum = hashlib.sha256()
    for array in (dataset.train_x_NCHW, dataset.train_y_N, dataset.test_x_NCHW, dataset.test_y_N):
        checksum.update(np.ascontiguousarray(array).tobytes())
    return f"{dataset.name} {checksum.hexdigest()[:16]}"
