"""Programs to disturb, with what memory holds after each of their commands, by the golden model."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from adagp.golden.state import COUNTED
from adagp.host.devices.device import Device
from adagp.host.devices.golden import GoldenDevice
from adagp.host.program import Program
from adagp.host.training.network import Network
from adagp.spec.commands import Command, Opcode
from adagp.spec.config import Config
from adagp.spec.opcodes import COMPUTE, UPDATES
from adagp.spec.operands import counted
from adagp.spec.registers import Status
from adagp.spec.schedule import Entry, Schedule

from .spans import Span, clear_cycles, compute_spans, update_spans

__all__ = ["BP", "EVALUATE", "GP", "WARMUP", "Work", "Workload", "record", "work_of"]

WARMUP, BP, GP, EVALUATE = range(4)
SCHEDULE = Schedule(0, 6, (Entry(6, 1, 1),))


@dataclass(frozen=True)
class Work:
    """A compute, UPDATE or ADAM command as it is executed once: its bursts in order, and all memory after it.

    ``place``: batch and index in the program. ``dry``: the first of the two times in calibration. ``kind``: of WAITS.
    ``clears``: cycles for which beats that have come may wait, see :func:`.spans.clear_cycles`.
    """

    place: tuple[int, int]
    command: Command
    dry: bool
    reads: list[Span]
    writes: list[Span]
    after: np.ndarray
    clears: int

    @property
    def kind(self) -> str:
        return counted(self.command)


@dataclass
class Workload:
    """A network's program, run in ``phase`` (None: by SCHEDULE) for ``batches`` from a known state.

    ``image``, ``state``: memory and a snapshot before; ``final``, ``final_state``, ``counters``: after. ``works``:
    compute, UPDATE and ADAM commands in the order of the program. ``stops``: batches that come to HOST.
    """

    network: Network
    phase: int | None
    calibrate: bool
    batches: int
    loss_gradient: np.ndarray
    image: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    state: dict[str, np.ndarray] = field(default_factory=dict)
    works: list[Work] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    final: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    final_state: dict[str, np.ndarray] = field(default_factory=dict)
    counters: list[dict[str, int]] = field(default_factory=list)

    @property
    def program(self) -> Program:
        return self.network.program

    @property
    def config(self) -> Config:
        return self.network.config

    def on_chip(self, address: int) -> bool:
        """True if bursts to that address stay in the accelerator."""
        first, end = self.window
        return first <= address < end

    @property
    def window(self) -> tuple[int, int]:
        """First address on chip and the first one after; equal where there is nothing."""
        window = self.network.compiled.window if self.config.predictor_on_chip else range(0)
        return window.start, window.stop

    def prepare(self, device: Device, memory: np.ndarray) -> None:
        """Everything as it was before the program; ``memory`` is the device's."""
        self.network.restore(device, self.state)
        memory[:] = self.image
        self.set_rates(device)
        device.reset_counters()

    def set_rates(self, device: Device) -> None:
        """Sets the rates of the updates, and the schedule."""
        self.network.set_hyper(device, 0.07, 0.9, 0.002)
        if self.config.predicts:
            self.network.set_adam(device, 0.01)
            device.set_schedule(SCHEDULE)

    def start(self, device: Device) -> None:
        self.network.start(device, self.phase, batches=self.batches, calibrate=self.calibrate)

    def at_host(self, device: Device) -> None:
        """The host's work at HOST."""
        self.network.write_loss_gradient(device, self.loss_gradient)
        device.resume()

    def run(self, device: Device) -> None:
        """From start to end; raises DeviceError."""
        self.start(device)
        while device.wait() & Status.HOST:
            self.at_host(device)

    def counted(self, device: Device) -> list[dict[str, int]]:
        """Counters that don't depend on time, by phase."""
        return [{name: device.counters(phase)[name] for name in COUNTED} for phase in (WARMUP, BP, GP, EVALUATE)]

    def check_final(self, device: Device, memory: np.ndarray) -> None:
        """Assert that counters, memory and what a checkpoint holds are those after the program."""
        counters = self.counted(device)
        assert counters == self.counters, f"counters {counters}, not {self.counters}"
        state = self.network.snapshot(device)
        changed = [name for name, value in self.final_state.items() if not np.array_equal(state[name], value)]
        assert not changed, f"final {', '.join(changed)} differ"
        assert (place := self.difference(self.final, memory)) is None, f"final memory differs in {place}"

    def difference(self, expected: np.ndarray, found: np.ndarray) -> str | None:
        """The first byte that differs and the tensor it belongs to; what is on chip isn't looked at."""
        different = expected != found
        different[slice(*self.window)] = False
        if not different.any():
            return None
        byte = int(np.argmax(different))
        names = [name for name, t in self.network.tensors.items() if t.address <= byte < t.address + t.n_bytes]
        return f"byte 0x{byte:x} ({', '.join(names) or 'no tensor'}): {found[byte]:02x}, not {expected[byte]:02x}"


def record(load: Workload, golden: GoldenDevice) -> None:
    """Run on the golden model, noting every command's bursts and the memory after it."""
    machine, config = golden.machine, golden.config
    batch, ring = 0, 0

    def note(index, command):
        nonlocal batch, ring
        if command.opcode == Opcode.END:
            batch, ring = batch + 1, (ring + 1) % load.network.ring_entries
        if command.opcode == Opcode.HOST:
            load.stops.append(batch)
        if command.opcode not in COMPUTE and command.opcode not in UPDATES:
            return
        base = load.network.tensors["input"].address + ring * load.network.compiled.entry_bytes
        a_base = command.a_addr + base * command.ring
        own = config.predictor_core if command.predictor and config.n_cores > 1 else config
        for dry in (True, False)[not load.calibrate :]:
            if command.opcode in UPDATES:
                both, clears = update_spans(command, dry, config), 0
            else:
                both = compute_spans(command, a_base, dry, own, config)
                clears = clear_cycles(command, a_base, dry, own)
            reads, writes = ([span for span in spans if not load.on_chip(span.address)] for spans in both)
            load.works.append(Work((batch, index), command, dry, reads, writes, machine.memory.copy(), clears))

    machine.on_command = note
    load.run(golden)
    machine.on_command = None
    load.counters = load.counted(golden)
    load.final_state = load.network.snapshot(golden)
    load.final = machine.memory.copy()


def _clients(config: Config) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Direction and AXI id of each that makes bursts for commands, and their kinds."""
    alone = config.n_cores == 1
    main = ("wait_main", "wait_predictor") if alone else ("wait_main",)
    yield from ((0, 1, main), (0, 2, ("wait_update",)), (1, 0, main), (1, 1, ("wait_update",)))
    if not alone:
        yield from ((0, 3, ("wait_predictor",)), (1, 2, ("wait_predictor",)))


def work_of(load: Workload, bursts: np.ndarray) -> np.ndarray:
    """For each burst that was seen (parts.BURST) the number of the work it belongs to, -1 for command fetch.

    Asserts that each client's bursts are the first of those expected of it, in their order.
    """
    owner = np.full(len(bursts), -1)
    for write, client, kinds in _clients(load.config):
        mine = np.flatnonzero((bursts["write"] == write) & (bursts["id"] == client))
        expected = [
            (number, span.address, span.beats)
            for number, work in enumerate(load.works) if work.kind in kinds
            for span in (work.writes if write else work.reads)
        ]  # fmt: skip
        name = f"{'write' if write else 'read'} client {client}"
        assert len(mine) <= len(expected), f"{name} made {len(mine)} bursts, all commands together {len(expected)}"
        found = np.stack([bursts["addr"][mine], bursts["beats"][mine]], axis=1)
        table = np.array(expected[: len(mine)], int).reshape(-1, 3)
        same = (found == table[:, 1:]).all(axis=1)
        assert same.all(), f"{name}: burst {np.argmin(same)} is {found[np.argmin(same)]}, not {table[np.argmin(same)]}"
        owner[mine] = table[:, 0]
    return owner
