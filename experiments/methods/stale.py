"""Pipelined training with stale weights, as a way to train a network of the experiments."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algorithm.stale_weights import StageMemory, StaleWeights, stage_memory
from ...host.pipelines.schedules import build
from ...spec.commands import Phase
from .methods import Pipelining

__all__ = ["Stale", "cut", "delays", "described", "expected_memory"]


def cut(network: nn.Module, depth: float) -> list[nn.Module]:
    """Stages of a network that share its weights: cut before the second layer or block, and before each up to a share
    of ``depth`` of them; the rest is the last stage.

    Raises ValueError for a network that isn't a Sequential, nor tells its ``parts()``, or has too few of them.
    """
    if isinstance(network, nn.Sequential):
        modules = list(network)
    elif callable(parts := getattr(network, "parts", None)):
        modules = parts()
    else:
        raise ValueError(f"{type(network).__name__} can't be cut: it must be a Sequential, or have a method parts()")
    heads = [any(w.dim() > 1 for w in module.parameters()) for module in modules]
    numbers = list(accumulate(heads))
    count = numbers[-1] if numbers else 0
    if count < 2:
        raise ValueError(f"a network of {count} layers can't be cut into stages")
    n_stages = 1 + max(1, round(depth * (count - 1)))
    stages: list[list[nn.Module]] = [[] for _ in range(n_stages)]
    for module, number in zip(modules, numbers, strict=True):
        stages[min(max(number - 1, 0), n_stages - 1)].append(module)
    return [nn.Sequential(*stage) for stage in stages]


def delays(schedule: str, n_stages: int) -> tuple[int, ...]:
    """Updates that the forward passes of each stage miss, by the schedule of that name; raises PipelineError."""
    devices = 2 * n_stages - 1 if schedule == "stale-registers" else n_stages
    return build(schedule, devices, 1).staleness


def expected_memory(network: nn.Module, pipelining: Pipelining, images_NCHW: Tensor) -> list[StageMemory]:
    """The memory of each stage for such batches, before any training."""
    stages = cut(network, pipelining.depth)
    return stage_memory(stages, delays(pipelining.schedule, len(stages)), images_NCHW)


def described(rows: Sequence[StageMemory], pipelining: Pipelining) -> str:
    """One line of each stage's staleness and of the memory of all."""
    missed = ", ".join(str(row.missed) for row in rows)
    held, weights, stashed = (sum(getattr(row, what) for row in rows) for what in ("held", "weights", "stashed"))
    old = f"{stashed:,} bytes of old weights" if pipelining.stash else f"no old weights (PipeDream: {stashed:,} bytes)"
    return f"updates missed by stage: {missed}; {held:,} bytes of activations, {weights:,} of weights, {old}"


class Stale(StaleWeights):
    """Trains a classifier with stale weights for a run of ``epochs``."""

    phase = Phase.WARMUP
    """All batches have true gradients."""

    def __init__(self, pipelining: Pipelining, network: nn.Module, optimizer: torch.optim.Optimizer, epochs: int):
        stages = cut(network, pipelining.depth)
        super().__init__(
            stages, optimizer, F.cross_entropy, delays(pipelining.schedule, len(stages)), stash=pipelining.stash,
            pipelined_epochs=round(pipelining.share * epochs),
        )  # fmt: skip
