"""Tasks: a loss for a batch, and a score of a network."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .average_precision import mean_average_precision
from .bleu import bleu
from .data import Batches
from .data.vocabulary import PAD
from .detection import detection_loss, detection_parts, right_classes
from .networks.transformer import translation_loss

__all__ = ["CLASSIFICATION", "DETECTION", "TASKS", "TRANSLATION", "Task", "moved", "task_of"]


def _mean(parts: Sequence[Tensor]) -> float:
    """In percent, of what is right (1) and wrong (0)."""
    return 100 * float(torch.cat(list(parts)).double().mean())


@dataclass(frozen=True)
class Task:
    """``loss`` of a network for a batch. ``parts``: of a batch, what ``score`` makes of those of all, in percent.

    ``labels`` of a batch, where synthetic gradients are given them; None where there is no single one.
    ``score_name``: what the score is called. ``further``: of a network and examples, measures beside the score and the
    loss, by name. ``evaluated``: examples in a batch of an evaluation.
    """

    name: str
    score_name: str
    loss: Callable[[nn.Module, Any], Tensor]
    parts: Callable[[nn.Module, Any], Any]
    whole: Callable[[Sequence[Any]], float] = _mean
    labels: Callable[[Any], Tensor] | None = None
    further: Callable[[nn.Module, Any], dict[str, float]] | None = None
    evaluated: int = 256

    def score(self, network: nn.Module, examples) -> float:
        """In evaluation mode; the network is left in the mode it was in."""
        with _evaluating(network):
            return self.whole([self.parts(network, batch) for batch in self._batches(network, examples)])

    def score_and_loss(self, network: nn.Module, examples) -> tuple[float, float]:
        """Both of them; the loss is the mean over batches, each by its number of examples."""
        parts, total = [], 0.0
        with _evaluating(network):
            for number, batch in enumerate(self._batches(network, examples)):
                parts.append(self.parts(network, batch))
                count = min(self.evaluated, len(examples) - number * self.evaluated)
                total += float(self.loss(network, batch)) * count
            return self.whole(parts), total / len(examples)

    def measures(self, network: nn.Module, examples) -> dict[str, float]:
        """All that there is beside the score: ``loss``, and by its name what ``further`` says."""
        with _evaluating(network):
            more = self.further(network, examples) if self.further else {}
        return {"loss": self.score_and_loss(network, examples)[1], **more}

    def _batches(self, network, examples):
        return _on_its_device(network, examples, self.evaluated)


@contextmanager
def _evaluating(network):
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(training)


def _on_its_device(network, examples, size):
    device = next(network.parameters()).device
    return (moved(batch, device) for batch in Batches(examples, size, 0, 0, shuffle=False))


def moved(batch: Any, device: torch.device) -> Any:
    """A batch with all its tensors, also those in lists and data classes, on ``device``."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, tuple | list):
        return type(batch)(moved(part, device) for part in batch)
    if is_dataclass(batch) and not isinstance(batch, type):
        return replace(batch, **{f.name: moved(getattr(batch, f.name), device) for f in fields(batch)})
    return batch


CLASSIFICATION = Task(
    "classification", "accuracy",
    loss=lambda network, batch: F.cross_entropy(network(batch[0]), batch[1]),
    parts=lambda network, batch: (network(batch[0]).argmax(1) == batch[1]).float(),
    labels=lambda batch: batch[1],
)  # fmt: skip
"""Top-1 accuracy."""


def _translated(network, batch):
    """Logits of the words that follow each of a target's but its last, and these words."""
    source, target = batch
    return network(source, target[:, :-1]), target[:, 1:]


def _right_words(network, batch):
    logits, words = _translated(network, batch)
    return (logits.argmax(-1) == words)[words != PAD].float()


def _bleu(network, examples):
    translations = [
        examples.target_words.decode(numbers)
        for source, _ in _on_its_device(network, examples, TRANSLATION.evaluated)
        for numbers in network.greedy(source)
    ]
    return {"bleu": bleu(translations, examples.target)}


TRANSLATION = Task(
    "translation", "word accuracy",
    loss=lambda network, batch: translation_loss(*_translated(network, batch)),
    parts=_right_words,
    further=_bleu,
    evaluated=64,
)  # fmt: skip
"""Accuracy of the next word, given those before it, of sentences' words and ends; loss; BLEU, greedily decoded."""


def _class_accuracy(network, examples):
    batches = _on_its_device(network, examples, DETECTION.evaluated)
    return {"class_accuracy": _mean([right_classes(network, batch) for batch in batches])}


DETECTION = Task(
    "detection", "mAP at IoU 0.5",
    loss=detection_loss,
    parts=detection_parts,
    whole=lambda parts: 100 * mean_average_precision([d for found, _ in parts for d in found],
                                                     [o for _, objects in parts for o in objects]),
    further=_class_accuracy,
    evaluated=16,
)  # fmt: skip
"""Mean average precision; loss; the share of objects to whose prior the right class seems likeliest."""

TASKS = {"multi30k": TRANSLATION, "voc": DETECTION}
"""Tasks of data sets, by name; all others are CLASSIFICATION."""


def task_of(data_name: str) -> Task:
    """The task of a data set of :data:`.data.DATASETS`."""
    return TASKS.get(data_name, CLASSIFICATION)
