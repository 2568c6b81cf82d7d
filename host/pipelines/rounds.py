"""Work of a pipeline's processes without torch's runtime: GP batches, and the predictor's learning after BP batches.

The runtime wants a backward step for each forward step, and has no messages between the last steps of a batch.
"""

from typing import Protocol

import numpy as np
import torch
from torch import distributed

from ..compiler.predictor_steps import GRADIENTS, SHARED
from .device_program import Staged
from .relay import Relay
from .shared_predictor import BATCH_END, largest
from .staged_network import Link, Ran
from .steps import What
from .worker import HEADER_BYTES, Message, Worker

__all__ = ["Rounds"]


class Process(Protocol):
    """The parts of a process's :class:`~adagp.host.pipelines.distributed.RankNetwork` that rounds read and change."""

    rank: int
    staged: Staged
    worker: Worker
    relay: Relay
    link: Link
    free: float
    calibrates: bool
    shared: dict[str, int]
    ran: list[Ran]
    sent_bytes: int

    def run(self, what: What, stage: int, micro_batch: int | None, vector: torch.Tensor | None) -> torch.Tensor:
        """Run a step with the vector that came for it; returns the one that goes to the neighbour."""


class Rounds:
    """The messages of one process of a pipeline."""

    def __init__(self, network: Process):
        self.network, self.staged, self.worker = network, network.staged, network.worker

    def forward(self) -> None:
        """Run a GP batch: each step as soon as its vector has come, and nothing waits for what is sent."""
        network, relay, last = self.network, self.network.relay, self.staged.schedule.stages - 1
        sending, inside = [], dict[int, torch.Tensor]()
        while step := self.worker.next:
            stage, number, vector = step.stage, step.micro_batch, None
            if stage and number is not None:
                tag = stage * self.staged.schedule.micro_batches + number
                vector = inside.pop(tag, None)
                if vector is None:
                    vector = torch.zeros(relay.length(stage - 1, False), dtype=torch.float64)
                    distributed.recv(vector, self.staged.device_of(stage - 1), tag=tag)
            made = network.run(step.what, stage, number, vector)
            if stage < last and number is not None:
                tag, reader = (stage + 1) * self.staged.schedule.micro_batches + number, self._reader(stage + 1)
                if reader == network.rank:
                    inside[tag] = made
                else:
                    sending.append((made, distributed.isend(made, reader, tag=tag)))
        for _, each in sending:  # the vectors are kept until they have gone
            if each is not None:
                each.wait()

    def learn(self) -> None:
        """Run the predictor's steps: stages in turn from the last, then Adam; then make shared exponents equal."""
        network, worker = self.network, self.worker
        vector = torch.zeros(self._length(), dtype=torch.float64)
        while step := worker.next:
            writer = self._reader(step.stage + 1 if step.what is What.LEARN else 0)
            if step.what is What.ADAM and self.staged.schedule.devices > 1:
                distributed.broadcast(vector, writer)
            elif worker.needs:
                distributed.recv(vector, writer)
            if worker.needs:
                self._take(vector)
            begin = network.free
            sent, cycles = worker.run()
            network.free = begin + cycles
            network.ran.append(Ran(network.rank, step, begin, network.free))
            if step.what is What.LEARN:
                network.shared |= worker.shared if network.calibrates else {}
                network.sent_bytes += sum(message.n_bytes for message in sent)
                vector = self._packed(sent) if sent else vector
                if sent and step.stage:
                    distributed.send(vector, self._reader(step.stage - 1))
        self._agree()

    def _agree(self) -> None:
        network, devices = self.network, self.staged.schedule.devices
        found: list = [None] * devices
        distributed.all_gather_object(found, (self.worker.shared, network.free))
        self.worker.share(largest([shared for shared, _ in found]))
        if devices > 1:
            n_bytes = HEADER_BYTES * len(SHARED)
            network.sent_bytes += n_bytes * (devices - 1)
            network.free = max(free for _, free in found) + network.link.cycles(n_bytes)

    def _reader(self, stage: int) -> int:
        """The rank that has a stage."""
        return self.staged.device_of(min(stage, self.staged.schedule.stages - 1))

    def _length(self) -> int:
        return 1 + len(SHARED) + sum(1 + self._size(name) for name in GRADIENTS)

    def _size(self, name: str) -> int:
        return int(np.prod(self.staged.tensors[name].shape))

    def _packed(self, messages: list[Message]) -> torch.Tensor:
        """Time, shared exponents, then exponent and mantissas of both gradients."""
        known = self.network.shared
        parts = [np.array([self.network.free, *(known.get(name, 0) for name in SHARED)])]
        for message in messages[: len(GRADIENTS)]:
            parts += [np.array([message.exponent]), message.mantissas.reshape(-1)]
        return torch.from_numpy(np.concatenate(parts).astype(np.float64))

    def _take(self, vector: torch.Tensor) -> None:
        """Put both gradients into memory; the clock goes on from the time at which they have come."""
        network, values, place, n_bytes = self.network, vector.numpy(), 1 + len(SHARED), 0
        for name in GRADIENTS:
            tensor, size = self.staged.tensors[name], self._size(name)
            mantissas = values[place + 1 : place + 1 + size].astype(tensor.dtype).reshape(tensor.shape)
            message = Message(name, BATCH_END, 0, True, int(values[place]), mantissas)
            self.worker.take(message)
            place, n_bytes = place + 1 + size, max(n_bytes, message.n_bytes)
        if network.calibrates:
            network.shared |= dict(zip(SHARED, map(int, values[1 : 1 + len(SHARED)]), strict=True))
            self.worker.share(network.shared)
        network.free = max(network.free, float(values[0]) + network.link.cycles(n_bytes))
