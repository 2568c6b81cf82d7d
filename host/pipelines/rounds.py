"""Work of a pipeline's processes without torch's runtime: GP batches, replicas, stale weights, and the predictor.

The runtime wants a backward step for each forward step, one rank for each stage, and all micro-batches in each. It
updates once a batch, and has no messages between the last steps.
"""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import distributed

from ..compiler.predictor_steps import GRADIENTS, SHARED
from ..compiler.tensors import Tensor
from .device_program import Staged
from .relay import Relay, joined, length, parted
from .replicas import is_mean, largest_of
from .shared_predictor import BATCH_END, largest
from .staged_network import Link, Ran
from .steps import Step, What
from .worker import HEADER_BYTES, Message, Worker, agreed_bytes

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
    kept: dict[tuple[str, int], Message]
    shared: dict[str, int]
    ran: list[Ran]
    sent_bytes: int

    def run(self, what: What, stage: int, micro_batch: int | None, vector: torch.Tensor | None) -> torch.Tensor:
        """Run a step with the vector that came for it; returns the one that goes to the neighbour."""


class Rounds:
    """The messages of one process of a pipeline."""

    def __init__(self, network: Process):
        self.network, self.staged, self.worker = network, network.staged, network.worker
        self._sending: list[tuple[torch.Tensor, distributed.Work | None]] = []

    def batch(self) -> None:
        """Run a batch but the predictor's steps: each once its vector has come, and nothing waits for what is sent."""
        inside = dict[int, torch.Tensor]()
        while (step := self.worker.next) and step.what not in (What.LEARN, What.ADAM):
            vector = None
            if (writer := self._neighbour(step, came=True)) is not None:
                tag = self._tag(step, step.stage)
                vector = inside.pop(tag, None)
                if vector is None:
                    backward = step.what is not What.FORWARD
                    vector = torch.zeros(self.network.relay.length(writer, backward), dtype=torch.float64)
                    distributed.recv(vector, self.staged.device_of(writer, step.micro_batch or 0), tag=tag)
            self._take_sums(step)
            made = self.network.run(step.what, step.stage, step.micro_batch, vector)
            if (reader := self._neighbour(step, came=False)) is not None:
                place, tag = self.staged.device_of(reader, step.micro_batch or 0), self._tag(step, reader)
                if place == self.network.rank:
                    inside[tag] = made
                else:
                    self._send(made, place, tag)
            self._send_sums(step)
        self._wait()

    def _wait(self) -> None:
        """Wait until all that is sent has gone; until then the vectors are kept."""
        for _, each in self._sending:
            if each is not None:
                each.wait()
        self._sending.clear()

    def _neighbour(self, step: Step, came: bool) -> int | None:
        """The stage that a step's vector comes from or goes to; None if there is none."""
        if step.micro_batch is None or step.what is What.UPDATE:
            return None
        stage = step.stage + (1 if came == (step.what is not What.FORWARD) else -1)
        return stage if 0 <= stage < self.staged.schedule.stages else None

    def _tag(self, step: Step, reader: int) -> int:
        """The number of the vector that a stage gets for, or after, a step."""
        stages, count = self.staged.schedule.stages, self.staged.schedule.micro_batches
        return (reader + stages * (step.what is not What.FORWARD)) * count + (step.micro_batch or 0)

    def _send(self, vector: torch.Tensor, place: int, tag: int) -> None:
        self._sending.append((vector, distributed.isend(vector, place, tag=tag)))

    def _take_sums(self, step: Step) -> None:
        """Wait for what the other replica's gradients add up to, if the step needs it."""
        network, wanted = self.network, self._exchanged(self.staged.exchange.received(step))
        for (micro_batch, mean), names in wanted.items():
            tensors = [self.staged.tensors[name] for name in names]
            vector = torch.zeros(length(1, tensors), dtype=torch.float64)
            writer = self.staged.device_of(step.stage, self.staged.exchange.other(step.replica))
            distributed.recv(vector, writer, tag=self._sums_tag(step, micro_batch, mean))
            (time,), parts = parted(vector, 1, tensors)
            for name, exponent, mantissas in parts:
                message = Message(name, micro_batch, step.stage, True, exponent, mantissas)
                network.kept[name, micro_batch] = message
                network.free = max(network.free, time + network.link.cycles(message.n_bytes))

    def _send_sums(self, step: Step) -> None:
        for (micro_batch, mean), names in self._exchanged(self.staged.exchange.sent(step)).items():
            messages = [self.network.kept[name, micro_batch] for name in names]
            self.network.sent_bytes += sum(message.n_bytes for message in messages)
            place = self.staged.device_of(step.stage, micro_batch)
            self._send(joined([self.network.free], messages), place, self._sums_tag(step, micro_batch, mean))

    def _exchanged(self, sums: Iterable[tuple[str, int]]) -> dict[tuple[int, bool], list[str]]:
        """The names of sums by the micro-batch that they are sent as, and whether they are the predictor's inputs.

        The batch that calibrates has none.
        """
        found: dict[tuple[int, bool], list[str]] = {}
        for name, micro_batch in () if self.network.calibrates else sums:
            found.setdefault((micro_batch, is_mean(name)), []).append(name)
        return found

    def _sums_tag(self, step: Step, micro_batch: int, mean: bool) -> int:
        stages, count = self.staged.schedule.stages, self.staged.schedule.micro_batches
        return ((2 + mean) * stages + step.stage) * count + micro_batch

    def learn(self) -> None:
        """Run the predictor's steps: stages in turn from the last, then Adam; then make shared exponents equal."""
        network, worker = self.network, self.worker
        vector = torch.zeros(length(1 + len(SHARED), self._gradients()), dtype=torch.float64)
        while step := worker.next:
            learns = step.what is What.LEARN
            writer = self._reader(step.stage + 1, step.replica) if learns else self._reader(0)
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
            if learns:
                network.shared |= worker.shared if network.calibrates else {}
                network.sent_bytes += sum(message.n_bytes for message in sent)
                vector = self._packed(sent) if sent else vector
                if sent and step.stage:
                    self._send(vector, self._reader(step.stage - 1, step.replica), 0)
        self._wait()
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

    def agree_as_replicas(self) -> None:
        """Give replicas the larger of their exponents, as one device has them; then both may begin the next batch."""
        network = self.network
        found: list = [None] * self.staged.schedule.devices
        distributed.all_gather_object(found, (self.worker.exponents, self.worker.scales, network.free))
        scales = {name: scale for _, theirs, _ in found for name, scale in theirs.items()}
        self.worker.agree(largest_of([exponents for exponents, _, _ in found]), scales)
        n_bytes = agreed_bytes(self.staged, network.rank)
        network.sent_bytes += n_bytes
        *_, partner_free = found[self.staged.schedule.partner(network.rank)]
        network.free = max(network.free, partner_free) + network.link.cycles(n_bytes)

    def _reader(self, stage: int, replica: int = 0) -> int:
        """The rank that has a stage of a replica."""
        return self.staged.device_of(min(stage, self.staged.schedule.stages - 1), self.staged.batch_end(replica))

    def _gradients(self) -> list[Tensor]:
        return [self.staged.tensors[name] for name in GRADIENTS]

    def _packed(self, messages: list[Message]) -> torch.Tensor:
        """Time, shared exponents, then exponent and mantissas of both gradients."""
        known = self.network.shared
        return joined([self.network.free, *(known.get(name, 0) for name in SHARED)], messages[: len(GRADIENTS)])

    def _take(self, vector: torch.Tensor) -> None:
        """Put both gradients into memory; the clock goes on from the time at which they have come."""
        network, n_bytes = self.network, 0
        (time, *shared), parts = parted(vector, 1 + len(SHARED), self._gradients())
        for name, exponent, mantissas in parts:
            message = Message(name, BATCH_END, 0, True, exponent, mantissas)
            self.worker.take(message)
            n_bytes = max(n_bytes, message.n_bytes)
        if network.calibrates:
            network.shared |= dict(zip(SHARED, map(int, shared), strict=True))
            self.worker.share(network.shared)
        network.free = max(network.free, time + network.link.cycles(n_bytes))
