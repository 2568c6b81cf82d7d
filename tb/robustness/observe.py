"""A run as the memory saw it, held against what the commands of its program must do."""

from dataclasses import dataclass, field

import numpy as np
from adagp.host.devices.simulated import SimDevice
from adagp.spec.commands import COMMAND_BYTES, Opcode
from adagp.spec.operands import WAITS
from adagp.spec.registers import Control

from .conditions import ROOM
from .workload import Work, Workload, work_of

__all__ = ["CLIENTS", "PREDICTOR_STORE", "Run", "clear"]

PREDICTOR_STORE = 2
"""The AXI id of a second core's writes."""
CLIENTS = {
    (0, 0): "fetch", (0, 1): "fill", (0, 2): "update read", (0, 3): "predictor's fill",
    (1, 0): "store", (1, 1): "update write", (1, PREDICTOR_STORE): "predictor's store",
}  # fmt: skip
"""Who makes a burst, by direction and AXI id."""

CLEAR_READS = 20
"""Reads of STATUS in which CLEAR must be done while no burst is under way."""


def clear(device: SimDevice) -> None:
    """CLEAR a device with no burst under way, and see that it is done."""
    device.write_register("CONTROL", Control.CLEAR)
    for _ in range(CLEAR_READS):
        if not device.read_register("STATUS"):
            break
    state = [device.read_register(name) for name in ("STATUS", "ERROR", "ERROR_INDEX")]
    assert state == [0, 0, 0], f"STATUS, ERROR, ERROR_INDEX after CLEAR: {state}"


@dataclass
class Run:
    """A run of ``load`` on ``device`` that may have been stopped anywhere; begin it with a new log of bursts.

    ``hosts``: number of bursts before each HOST. :meth:`close` takes the log and assigns its bursts to commands.
    """

    load: Workload
    device: SimDevice
    hosts: list[int] = field(default_factory=list)

    def at_host(self) -> None:
        """Do what the host does at HOST."""
        self.hosts.append(len(self.device.simulation.bursts))
        self.load.at_host(self.device)

    def close(self) -> None:
        """No more is to come: take the bursts, find whose they are."""
        self.stopped = self.device.simulation.cycles
        self.bursts = self.device.simulation.bursts.copy()
        assert len(self.bursts) < ROOM, f"{len(self.bursts)} bursts"
        self.owner = work_of(self.load, self.bursts)

    def check_memory(self) -> None:
        """Memory holds what answered bursts have written, which are the golden model's bytes, and nothing else."""
        expected = self.load.image.copy()
        if self.hosts:
            t = self.load.network.tensors["loss.gradient"]
            expected[t.address : t.address + t.n_bytes] = self.load.final[t.address : t.address + t.n_bytes]
        upcoming = [iter(work.writes) for work in self.load.works]
        for burst, owner in zip(self.bursts, self.owner, strict=True):
            if burst["write"]:
                span = next(upcoming[owner])
                if burst["last"] and not burst["response"]:
                    expected[span.first : span.end] = self.load.works[owner].after[span.first : span.end]
        place = self.load.difference(expected, self.device.simulation.memory)
        assert place is None, f"memory isn't what was written: {place}"

    def check_waits(self) -> None:
        """A command makes its first burst when all that it waits for are written."""
        works, bursts = self.load.works, self.bursts
        complete = [self._complete(number) for number in range(len(works))]
        for number, work in enumerate(works):
            mine = bursts["offered"][self.owner == number]
            if not len(mine):
                continue
            begun = mine.min()
            for kind in WAITS:
                queue = [
                    i for i, other in enumerate(works)
                    if other.kind == kind and not other.dry and other.place[0] == work.place[0]
                ]  # fmt: skip
                for other in queue[: getattr(work.command, kind)]:
                    assert complete[other] < begun, f"{work.place} began before {works[other].place} was complete"

    def _complete(self, number: int) -> float:
        """The cycle in which the last write of a work was answered; infinite while there are others."""
        mine = self.bursts[(self.owner == number) & (self.bursts["write"] == 1)]
        if len(mine) < len(self.load.works[number].writes) or not mine["last"].all():
            return np.inf
        return mine["last"].max(initial=-1)

    def whole(self, number: int) -> bool:
        """True if all of a work's bursts were made and answered."""
        mine = self.bursts[self.owner == number]
        work = self.load.works[number]
        return len(mine) == len(work.reads) + len(work.writes) and bool(mine["last"].all())

    def interrupted(self) -> list[int]:
        """Works that have begun and weren't whole at the end."""
        numbers = sorted({int(number) for number in self.owner if number >= 0})
        return [number for number in numbers if not self.whole(number)]

    def client(self, number: int) -> str:
        """Who made burst ``number``."""
        return CLIENTS[int(self.bursts["write"][number]), int(self.bursts["id"][number])]

    def fetched(self, number: int) -> tuple[int, int, bool]:
        """Batch and index of the command that burst ``number`` fetched, and whether it was needed.

        What is fetched ahead beyond HOST or END is dropped; after HOST it is fetched anew.
        """
        program = self.load.program
        fetches = np.flatnonzero((self.bursts["write"] == 0) & (self.bursts["id"] == 0))
        offset = self.bursts["addr"] - program.address
        index = int(offset[number] // COMMAND_BYTES)
        batch = int((offset[fetches[fetches <= number]] == 0).sum()) - 1
        [host], [end] = (
            [i for i, line in enumerate(program) if line.command.opcode == opcode]
            for opcode in (Opcode.HOST, Opcode.END)
        )
        needed = index <= end
        if batch in self.load.stops and index > host:
            met = dict(zip(self.load.stops, self.hosts, strict=False))
            needed &= batch in met and number >= met[batch]
        return batch, index, needed

    def latest(self) -> Work | None:
        """The work that made the latest burst, None before the first."""
        mine = self.owner[self.owner >= 0]
        return self.load.works[mine[-1]] if len(mine) else None
