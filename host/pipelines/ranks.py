"""A process' devices of a pipeline at work on orders: train a batch, tell their state, take over a state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ...spec.phases import WARMUP
from ..training.loss import softmax_cross_entropy
from .device_state import State, from_devices, to_devices
from .job import Job
from .staged_network import Pipelined, Ran, StagedNetwork

__all__ = ["REPLICAS_CUT", "Batch", "OneProcess", "Rank", "Share", "Team"]

REPLICAS_CUT = "replica_saturations"
"""Counter of the gradients that a replica may have cut, and one device not."""


@dataclass(frozen=True)
class Batch:
    """A batch of training: images, labels (None in GP), and learning rate with momentum and weight decay.

    ``adam``: the predictor's rate, if there is one; ``calibrate``, ``phase``, ``follows`` and ``alone``: as ``train``
    of :class:`~adagp.host.pipelines.staged_network.StagedNetwork` takes them.
    """

    x_NCHW: np.ndarray
    y_N: np.ndarray | None
    hyper: tuple[float, float, float]
    calibrate: bool
    adam: float | None = None
    phase: int = WARMUP
    follows: bool = False
    alone: bool = False


@dataclass
class Share:
    """A process' share of a batch: steps, the clock after it, bytes sent, and counters by device.

    ``losses``: mean loss, images and correct answers by micro-batch, of those whose last stage is here.
    """

    ran: list[Ran] = field(default_factory=list)
    clock: float = 0.0
    sent_bytes: int = 0
    counters: list[dict[str, int]] = field(default_factory=list)
    losses: dict[int, tuple[float, int, int]] = field(default_factory=dict)


class Rank:
    """A process' part of a pipeline that has been loaded: a StagedNetwork or a RankNetwork.

    ``train`` is its method of that name.
    """

    def __init__(self, network: Pipelined, train: Callable[..., None]):
        self.network, self._train = network, train

    def train(self, batch: Batch) -> Share:
        """Train a batch."""
        network, share = self.network, Share()
        parts_N = [] if batch.y_N is None else np.split(batch.y_N, network.staged.schedule.micro_batches)

        def loss(micro_batch: int, results: list[np.ndarray]) -> list[np.ndarray]:
            logits_NK, part_N = results[0].reshape(len(parts_N[0]), -1), parts_N[micro_batch]
            value, gradient_NK = softmax_cross_entropy(logits_NK, part_N)
            share.losses[micro_batch] = value, len(part_N), int(np.sum(logits_NK.argmax(axis=1) == part_N))
            return [gradient_NK]

        network.set_hyper(*batch.hyper)
        if batch.adam is not None:
            network.set_adam(batch.adam)
        self._train(
            batch.x_NCHW, loss, calibrate=batch.calibrate, phase=batch.phase, follows=batch.follows, alone=batch.alone
        )
        share.ran, share.clock, share.sent_bytes = network.ran, network.clock, network.sent_bytes
        for worker in network.workers:
            more = {REPLICAS_CUT: worker.saturated} if network.staged.schedule.replicas > 1 else {}
            share.counters.append(worker.device.counters(batch.phase) | more)
            worker.device.reset_counters()
        return share

    def state(self) -> State:
        """The state of this process' devices."""
        return from_devices(self.network)

    def take(self, state: State) -> None:
        """Go on from a state."""
        to_devices(self.network, state)


class Team(Protocol):
    """All devices of a pipeline."""

    @property
    def network(self) -> Pipelined:
        """The pipeline, with the devices of this process."""

    def order(self, name: str, *arguments: Any) -> Sequence[Any]:
        """Let each process' :class:`Rank` call one of its methods; returns their results."""

    def close(self) -> None:
        """Let go of all devices."""


class OneProcess:
    """All devices of a pipeline in this process, one after the other."""

    def __init__(self, network: StagedNetwork):
        self.network = network
        self._rank = Rank(network, network.train)

    @classmethod
    def of(cls, job: Job) -> "OneProcess":
        """The pipeline of a job, with the network's first weights; raises PipelineError."""
        devices = [job.open_device() for _ in range(job.plan.devices)]
        try:
            given, options = job.arguments(devices)
            network = StagedNetwork(*given, **options)
            job.load(network)
        except BaseException:
            for device in devices:
                device.close()
            raise
        return cls(network)

    def order(self, name: str, *arguments: Any) -> Sequence[Any]:
        """Call a method of the only :class:`Rank`."""
        return [getattr(self._rank, name)(*arguments)]

    def close(self) -> None:
        """Close the devices in the order in which they were made."""
        for worker in self.network.workers:
            worker.device.close()
